"""Kind `storage`: a target for backups. The nodes that it names get it, with its credentials sealed to their keys;
every node if it names none."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, Struct, UnsetType

from holdfast.model import canonical, storage_target
from holdfast.model.fleet import Fleet, Storage
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry, Table
from holdfast.planning import harmless, secrets, storage
from holdfast.planning.kinds.kind import (
    EVERY_NODE,
    Drawing,
    Kind,
    Proposal,
    Section,
    Step,
    check_name,
    destroy,
    document_fields,
)
from holdfast.planning.unsound import Unsound


class StorageEntry(Struct, frozen=True):
    """The last two only where nodes are named: the digest of the sealed credentials, and `node.NAME` of each."""

    digest: str
    secrets: dict[str, str]
    applies_to: tuple[str, ...] | UnsetType


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"storage.{name}": canonical.encode(target) for name, target in fleet.storage.items()}


def draft(drawing: Drawing, address: str, digest: str) -> Entry:
    target = drawing.fleet.storage[address.partition(".")[2]]
    sealed = {name: drawing.sealed[name] for name in storage.named(target) if name in drawing.sealed}
    return Entry(digest, secrets=sealed, applies_to=_holders(target))


def _holders(target: Storage) -> tuple[str, ...] | UnsetType:
    return tuple(f"node.{node}" for node in target.nodes) or UNSET


def check(proposal: Proposal) -> None:
    target, entry = proposal.document(Storage), proposal.entry
    check_name(proposal.address, target.name)
    if entry.applies_to != _holders(target) or tuple(entry.secrets) != storage.named(target):
        raise Unsound(f"the table gives {proposal.address} other nodes or secrets than its content names")
    for name, digest in entry.secrets.items():
        secrets.read(proposal.contents, digest, name, proposal.address)


def demands(step: Step) -> Iterator[Demand]:
    if step.before is not None and step.after is None:
        yield destroy("detaches a storage target", gives_up_data=True)
    elif step.is_other_content:
        before, after = step.documents(Storage)
        found = tuple(storage_demands(before, after))
        yield from found or (harmless.demands("storage", before, after) if step.rules != "first" else ())
    elif step.before is None and step.rules != "first":
        yield destroy("adds a storage target, which will hold data")
    if step.before is not None and step.after is not None and step.before.secrets != step.after.secrets:
        yield destroy("changes the credentials of the storage target")


def storage_demands(before: Storage, after: Storage) -> Iterator[Demand]:
    if (before.durable_id, before.type, before.location) != (after.durable_id, after.type, after.location):
        yield destroy("points the storage target somewhere else", gives_up_data=True)
    if before.state == "attached" != after.state:
        yield destroy(f"detaches the storage target ({after.state})", gives_up_data=True)
    if after.nodes and (not before.nodes or set(before.nodes) - set(after.nodes)):
        yield destroy("detaches the storage target from nodes that have it", gives_up_data=True)
    if before.role != after.role:
        yield destroy(f"changes the role of the storage target ({before.role} → {after.role})")
    old, new = before.policy.retain, after.policy.retain
    if old != new and (old is UNSET or new is UNSET):
        yield destroy("changes policy.retain of the storage target, to or from that of [backups]")
    elif old is not UNSET and new is not UNSET and storage_target.keeps_fewer(old, new):
        words = f"{storage_target.in_words(old)} → {storage_target.in_words(new)}"
        yield destroy(f"lowers policy.retain of the storage target ({words})")
    if after.policy.schedule != before.policy.schedule:
        yield destroy("changes policy.schedule of the storage target")


def why(before: Entry | None, after: Entry) -> str:
    nodes = ", ".join(sorted(secrets.nodes_of(after)))
    return f"used by {nodes}" if nodes and before is None else ""


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    nodes = sorted(secrets.nodes_of(entry))
    return tuple((node, "storage") for node in nodes) if nodes else ((EVERY_NODE, "storage"),)


KIND = Kind(
    name="storage",
    schema=Storage,
    view=StorageEntry,
    documents=documents,
    draft=draft,
    check=check,
    demands=demands,
    fields=document_fields,
    why=why,
    project=project,
)
