"""Kind `trust`: who may sign what. The header names its digest; no manifest contains it."""

from collections.abc import Iterator, Mapping

from holdfast.errors import Invalid
from holdfast.model import canonical, ssh_key, trust
from holdfast.model.fleet import Fleet
from holdfast.model.ids import TRUST
from holdfast.model.plan import Demand
from holdfast.model.size import counted
from holdfast.planning.kinds.kind import (
    Kind,
    PlainEntry,
    Proposal,
    Step,
    destroy,
    document_fields,
    nothing_to_say,
    plain_entry,
    to_no_node,
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
        able = sum(trust.may_sign(found, operator, grade) for operator in found.operators)
        if able < trust.threshold(found, grade):
            touch = ' with a security key (destroy_requires = "touch")' if trust.needs_touch(found, grade) else ""
            raise Unsound(f"only {counted(able, 'operator')} could sign for grade {grade}{touch}")


def demands(step: Step) -> Iterator[Demand]:
    """The first trust is not a change of trust: its digest is the fleet id, which clients pin."""
    yield destroy("founds the fleet") if step.before is None else Demand("root", "changes who is trusted")


KIND = Kind(
    name="trust",
    schema=trust.Trust,
    view=PlainEntry,
    documents=documents,
    draft=plain_entry,
    check=check,
    demands=demands,
    fields=document_fields,
    why=nothing_to_say,
    project=to_no_node,
)
