"""Kind `policy`: an authorization rule and what it applies to. Nodes get the policies that bind their services."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, Struct, UnsetType

from holdfast.model.fleet import Fleet
from holdfast.model.ids import FLEET
from holdfast.model.plan import Demand, FieldChange
from holdfast.model.revision import Entry, Table
from holdfast.planning.kinds.kind import (
    EVERY_NODE,
    Drawing,
    Kind,
    Proposal,
    Section,
    Step,
    destroy,
    nothing_to_say,
)


class PolicyEntry(Struct, frozen=True):
    digest: str
    applies_to: tuple[str, ...] | UnsetType


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"policy.{name}": policy.text for name, policy in fleet.policies.items()}


def draft(drawing: Drawing, address: str, digest: str) -> Entry:
    return Entry(digest, applies_to=drawing.fleet.policies[address.partition(".")[2]].applies_to)


def check(proposal: Proposal) -> None:
    """Does not check its text."""


def demands(step: Step) -> Iterator[Demand]:
    before, after = step.before, step.after
    if before is None:
        return
    if after is None:
        yield destroy("removes a policy, which widens what is allowed")
    elif before.digest != after.digest:
        yield destroy("changes a policy, which may widen what is allowed")
    elif set(before.applies_to or ()) - set(after.applies_to or ()):
        yield destroy("narrows where a policy applies")


def fields(step: Step) -> Iterator[FieldChange]:
    before, after = step.before, step.after
    if before is None or after is None:
        return
    if before.digest != after.digest:
        yield FieldChange("text", before.digest[:12], after.digest[:12])
    if before.applies_to != after.applies_to:
        yield FieldChange("applies_to", list(before.applies_to or ()), list(after.applies_to or ()))


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    """A policy for the whole fleet goes to every node; one for a service to its node and its standby nodes."""
    if FLEET in (entry.applies_to or ()):
        return ((EVERY_NODE, "policies"),)
    bound = [table.entries[target] for target in entry.applies_to or () if target in table.entries]
    homes = {str(service.node) for service in bound if service.node is not UNSET}
    return tuple((node, "policies") for node in sorted(homes.union(*(service.failover for service in bound))))


KIND = Kind(
    name="policy",
    schema=bytes,
    view=PolicyEntry,
    documents=documents,
    draft=draft,
    check=check,
    demands=demands,
    fields=fields,
    why=nothing_to_say,
    project=project,
)
