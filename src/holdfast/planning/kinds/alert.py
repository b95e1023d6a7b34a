"""Kind `alert`: where the hub sends alerts. Nodes do not get it: its URL is often a secret."""

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from holdfast.model import canonical
from holdfast.model.fleet import AlertTarget, Fleet
from holdfast.model.plan import Demand, FieldChange
from holdfast.planning import alerts
from holdfast.planning.fields import differences
from holdfast.planning.kinds.kind import (
    Kind,
    PlainEntry,
    Proposal,
    Step,
    check_name,
    destroy,
    nothing_to_say,
    plain_entry,
    to_no_node,
)
from holdfast.planning.unsound import Unsound


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"alert.{name}": canonical.encode(alert) for name, alert in fleet.alerts.items()}


def check(proposal: Proposal) -> None:
    target = proposal.document(AlertTarget)
    check_name(proposal.address, target.name)
    if (target.webhook is UNSET) == (target.apprise is UNSET):
        raise Unsound(f"{proposal.address} must have exactly one of webhook and apprise")


def demands(step: Step) -> Iterator[Demand]:
    """X04: the hub sends requests to a target, and a target that goes leaves trouble untold."""
    if step.rules != "first" and (step.before is None or step.after is None or step.is_other_content):
        yield destroy("changes where the hub sends alerts")


def fields(step: Step) -> Iterator[FieldChange]:
    if step.is_other_content:
        yield from differences(alerts.masked(step.content_before()), alerts.masked(step.content_after()))


KIND = Kind(
    name="alert",
    schema=AlertTarget,
    view=PlainEntry,
    documents=documents,
    draft=plain_entry,
    check=check,
    demands=demands,
    fields=fields,
    why=nothing_to_say,
    project=to_no_node,
)
