"""Kind `storage`: a target for backups. Every node gets it."""

from collections.abc import Iterable, Iterator, Mapping

from holdfast.model import canonical
from holdfast.model.fleet import Fleet, Storage
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry, Table
from holdfast.planning import harmless
from holdfast.planning.kinds.kind import (
    EVERY_NODE,
    Kind,
    PlainEntry,
    Proposal,
    Section,
    Step,
    check_name,
    destroy,
    document_fields,
    nothing_to_say,
    plain_entry,
)


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"storage.{name}": canonical.encode(target) for name, target in fleet.storage.items()}


def check(proposal: Proposal) -> None:
    check_name(proposal.address, proposal.document(Storage).name)


def demands(step: Step) -> Iterator[Demand]:
    if step.before is not None and step.after is None:
        yield destroy("detaches a storage target", gives_up_data=True)
    elif step.is_other_content:
        before, after = step.documents(Storage)
        found = tuple(storage_demands(before, after))
        yield from found or (harmless.demands("storage", before, after) if step.rules != "first" else ())
    elif step.before is None and step.rules != "first":
        yield destroy("adds a storage target, which will hold data")


def storage_demands(before: Storage, after: Storage) -> Iterator[Demand]:
    if (before.durable_id, before.type) != (after.durable_id, after.type):
        yield destroy("points the storage target somewhere else", gives_up_data=True)
    if before.state == "attached" != after.state:
        yield destroy(f"detaches the storage target ({after.state})", gives_up_data=True)
    if before.role != after.role:
        yield destroy(f"changes the role of the storage target ({before.role} → {after.role})")
    if after.policy.retain < before.policy.retain:
        yield destroy(f"lowers policy.retain of the storage target ({before.policy.retain} → {after.policy.retain})")
    if after.policy.schedule != before.policy.schedule:
        yield destroy("changes policy.schedule of the storage target")


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    return ((EVERY_NODE, "storage"),)


KIND = Kind(
    name="storage",
    schema=Storage,
    view=PlainEntry,
    documents=documents,
    draft=plain_entry,
    check=check,
    demands=demands,
    fields=document_fields,
    why=nothing_to_say,
    project=project,
)
