"""A service that a node backs up: which node that is, and waiting for what it reports about an order."""

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from holdfast.cli.backups import backup_view
from holdfast.cli.hub import show_finding
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.errors import Invalid, Unreachable
from holdfast.model import backup_key
from holdfast.model.verified_report import VerifiedReport
from holdfast.ports.hub_link import FleetReader

T = TypeVar("T")
Find = Callable[[VerifiedReport], T | None]


class BackupUnderWay(Unreachable):
    code = "backup_under_way"


class DrillUnderWay(Unreachable):
    code = "drill_under_way"


What = Literal["backup", "drill"]
UNDER_WAY: Mapping[What, type[Unreachable]] = {"backup": BackupUnderWay, "drill": DrillUnderWay}


def home(service: str, view: FleetView) -> str:
    """Of a service, or of a node itself (`node.NAME`)."""
    if backup_key.address(service) not in view.applied.table.entries:
        raise fleet_view.no_service(service, view.applied.table.of_kind("service"))
    reported = backup_view.states(view).get(service)
    if reported is None:
        raise Invalid(
            f"no node reports that it backs {service} up",
            remedy='declare protect = "backup" for a volume of it, then: holdfast apply; a node is backed up while it '
            "serves routes",
            code="not_backed_up",
        )
    return reported[0]


def awaited(find: Find[T], what: What, service: str, node: str, until_s: float, view: FleetView, box: Toolbox) -> T:
    """The first that it finds in a report of the node. `what`: the noun that may not be over in time."""
    assert isinstance(view.hub, FleetReader), "a ledger directory takes no orders"
    poll = ReportPoll(view.hub, view.applied, (node,), box)
    try:
        return _found(find, what, service, node, until_s, poll, box)
    except KeyboardInterrupt:
        shown = show_finding.for_pasting(f"holdfast backup list {service}", box.terminal)
        box.terminal.remark(f"Stopped waiting. The {what} of {service} goes on on {node}; its end: {shown}")
        raise


def _found(find: Find[T], what: What, service: str, node: str, until_s: float, poll: ReportPoll, box: Toolbox) -> T:
    while True:
        report = poll.look().get(node)
        end = find(report) if report is not None else None
        if end is not None:
            return end
        left_s = until_s - box.clock.monotonic_s()
        if left_s <= 0:
            raise UNDER_WAY[what](
                f"the {what} of {service} is not over yet; it goes on",
                remedy=f"`holdfast backup list {service}` shows its end; a longer --timeout waits for it",
            )
        poll.rest(left_s)
