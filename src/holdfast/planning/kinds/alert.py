"""Kind `alert`: where alerts go. The hub's targets go to no node: their URL is often a secret. A target with `nodes`
goes to these, with its URL sealed to their keys; they send to it when they do not hear the hub (X17)."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, Struct, UnsetType

from holdfast.model import canonical
from holdfast.model.fleet import AlertTarget, Fleet
from holdfast.model.plan import Demand, FieldChange
from holdfast.model.revision import Entry, Table
from holdfast.planning import alerts, secrets
from holdfast.planning.fields import differences
from holdfast.planning.kinds.kind import (
    Drawing,
    Kind,
    Proposal,
    Section,
    Step,
    check_name,
    destroy,
)
from holdfast.planning.unsound import Unsound


class AlertEntry(Struct, frozen=True):
    """The last two only where nodes send: the digest of the sealed URL, and `node.NAME` of each."""

    digest: str
    secrets: dict[str, str]
    applies_to: tuple[str, ...] | UnsetType


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"alert.{name}": canonical.encode(alert) for name, alert in fleet.alerts.items()}


def draft(drawing: Drawing, address: str, digest: str) -> Entry:
    target = drawing.fleet.alerts[address.partition(".")[2]]
    if not target.nodes:
        return Entry(digest)
    sealed = drawing.sealed.get(target.secret) if target.secret is not UNSET else None
    return Entry(digest, secrets={str(target.secret): sealed} if sealed else {}, applies_to=senders(target))


def senders(target: AlertTarget) -> tuple[str, ...]:
    return tuple(f"node.{node}" for node in target.nodes)


def check(proposal: Proposal) -> None:
    target, entry = proposal.document(AlertTarget), proposal.entry
    check_name(proposal.address, target.name)
    for wrong in alerts.complaints(target):
        raise Unsound(f"{proposal.address} {wrong.what}")
    if (entry.applies_to or ()) != senders(target) or tuple(entry.secrets) != alerts.named(target):
        raise Unsound(f"the table gives {proposal.address} other nodes or secrets than its content names")
    for name, digest in entry.secrets.items():
        secrets.read(proposal.contents, digest, name, proposal.address)


def demands(step: Step) -> Iterator[Demand]:
    """X04: the hub sends requests to a target, and a target that goes leaves trouble untold. So do nodes (X17): another
    sealed URL is another target. No revision before the newest rules has one that nodes send to."""
    by_nodes = any(entry is not None and entry.applies_to for entry in (step.before, step.after))
    if step.before != step.after and (by_nodes or step.rules != "first"):
        yield destroy(f"changes where {'nodes send' if by_nodes else 'the hub sends'} alerts")


def fields(step: Step) -> Iterator[FieldChange]:
    if step.is_other_content:
        yield from differences(alerts.masked(step.content_before()), alerts.masked(step.content_after()))


def why(before: Entry | None, after: Entry) -> str:
    nodes = ", ".join(sorted(secrets.nodes_of(after)))
    return f"sent by {nodes}, without the hub" if nodes and before is None else ""


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    return tuple((node, "more") for node in sorted(secrets.nodes_of(entry)))


KIND = Kind(
    name="alert",
    schema=AlertTarget,
    view=AlertEntry,
    documents=documents,
    draft=draft,
    check=check,
    demands=demands,
    fields=fields,
    why=why,
    project=project,
)
