"""After a lost journal: containers that are exactly what is wanted count as ours again, and as what serves."""

from msgspec.structs import replace

from holdfast.agent.services.desired import Desired
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.model.container import Guest, name_of


def adopt(wanted: Desired, inventory: ContainerInventory, records: Records) -> None:
    names = {
        name_of(part.spec, part.digest, replica): part.digest
        for guest in wanted.guests.values()
        for part in guest.parts
        for replica in range(part.replicas)
    }
    if inventory.adopt(names, "adopted"):
        for name, guest in wanted.guests.items():
            _adopt_serving(name, guest, inventory, records)


def _adopt_serving(name: str, guest: Guest, inventory: ContainerInventory, records: Records) -> None:
    """All its containers are here: it serves, and must not be torn down like a first attempt."""
    slots = {(part.spec.component, n, part.digest) for part in guest.parts for n in range(part.replicas)}
    here = {(one.component, one.replica, one.spec) for one in inventory.of(name)}
    record = records.of(name)
    if record.serving is None and slots <= here:
        records.keep(name, replace(record, serving=guest, serving_revision=record.applied_revision))
