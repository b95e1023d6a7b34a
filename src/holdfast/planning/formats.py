"""The format of revisions that a node must read for each thing that older agents do not understand. Pure.

Every pulse names the newest format that its agent reads. A plan that sends such a thing to a node whose verified pulse
names an older format is refused: the agent would misread it.
"""

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from holdfast.errors import Conflict
from holdfast.model.fleet import Fleet, Service, Volume
from holdfast.model.revision import Table

BOUND_SECRETS = 2  # the purpose of a secret inside its seal (model/purpose.py): older agents take it for the value
OWNERS = 3  # `user` and `scratch` of a component, `owner` of a volume: older agents cannot read a service with them
NEWEST = 3  # what this release reads


def require_readable(
    fleet: Fleet, table: Table, before: Table, known: Mapping[str, int], only: str | None = None
) -> None:
    """`known`: node → the newest format that its verified pulse names. What is applied already was read already."""
    for name, service in sorted(fleet.services.items()):
        address = f"service.{name}"
        entry, was = table.entries.get(address), before.entries.get(address)
        if entry is None or only not in (None, address):
            continue
        nodes = {str(entry.node), *entry.failover}
        if was is not None and was.digest == entry.digest:
            nodes -= {str(was.node), *was.failover}
        for node in sorted(nodes):
            if known.get(node, OWNERS) < OWNERS and (key := next(_newer_keys(service), None)) is not None:
                raise too_old(node, f"{key} of {address}")


def _newer_keys(service: Service) -> Iterator[str]:
    for component in service.components:
        if component.user is not UNSET:
            yield f"user of component {component.name}"
        if component.scratch:
            yield f"scratch of component {component.name}"
        for volume in component.volumes:
            if isinstance(volume, Volume) and volume.owner is not UNSET:
                yield f"owner of volume {volume.name}"


def too_old(node: str, what: str) -> Conflict:
    return Conflict(
        f"the agent on {node} is of an older release, which cannot read {what}",
        remedy=f"upgrade the agent on {node} to this release and start it again; then repeat the command",
        code="agent_too_old",
    )
