"""Kind `trust`: who may sign what. The header names its digest; no manifest contains it."""

from collections.abc import Iterable, Iterator, Mapping

from holdfast.errors import Invalid
from holdfast.model import canonical, ssh_key, trust
from holdfast.model.applied import plain
from holdfast.model.fleet import Fleet
from holdfast.model.ids import TRUST
from holdfast.model.plan import Demand, FieldChange
from holdfast.model.revision import Entry, Table
from holdfast.planning.fields import differences
from holdfast.planning.kinds.kind import (
    Kind,
    PlainEntry,
    Proposal,
    Section,
    Step,
    destroy,
    nothing_to_say,
    plain_entry,
)
from holdfast.planning.unsound import Unsound


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {TRUST: canonical.encode(trust.of(fleet.operators, fleet.thresholds))}


def check(proposal: Proposal) -> None:
    """A trust under which no operator can act would lock out all operators permanently."""
    found = proposal.document(trust.Trust)
    keys = set()
    for operator in found.operators:
        try:
            keys.add(ssh_key.parse(operator.key).blob)
        except Invalid as trouble:
            raise Unsound(f"the key of operator {operator.name} is unusable: {trouble.message}") from trouble
    if len(keys) != len(found.operators):
        raise Unsound("two operators have the same key")
    for grade in trust.GRADES:
        able = sum(trust.may_sign(operator, grade) for operator in found.operators)
        if able < trust.threshold(found, grade):
            raise Unsound(f"only {able} operators could sign for grade {grade}")


def demands(step: Step) -> Iterator[Demand]:
    """The first trust is not a change of trust: its digest is the fleet id, which clients pin."""
    yield destroy("founds the fleet") if step.before is None else Demand("root", "changes who is trusted")


def fields(step: Step) -> Iterator[FieldChange]:
    if step.is_other_content:
        yield from differences(plain(step.content_before()), plain(step.content_after()))


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    return ()


KIND = Kind(
    name="trust",
    schema=trust.Trust,
    view=PlainEntry,
    documents=documents,
    draft=plain_entry,
    check=check,
    demands=demands,
    fields=fields,
    why=nothing_to_say,
    project=project,
)
