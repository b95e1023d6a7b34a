"""Refuse to move a service that is moving."""

from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting.moves import told
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.errors import Conflict
from holdfast.status import moves


def refuse(service: str, view: FleetView, box: Toolbox, with_backup: bool = False) -> None:
    """One move at a time: the data is at one of two nodes, and only its last move says at which. A service that waits
    for a backup has none yet, and may begin with a backup elsewhere."""
    one = moves.moves_of(view.applied.table).get(service)
    if one is None or (with_backup and not one.source):
        return
    hub = fleet_view.keeper(view, "services are moved")
    seen, nodes = told(one, view.nodes, ReportPoll(hub, view.applied, tuple(one.nodes), box), box.clock)
    is_heard = {name: found.status == "healthy" for name, found in nodes.items()}
    if seen.phase == "arrived" or (not is_heard.get(one.target) and (not one.source or seen.handed_over)):
        return  # a silent target: a backup begins on another node
    back = f"take it back: holdfast migrate {service} --abort"
    if one.source and not is_heard.get(one.source) and not seen.handed_over:
        remedy = f"{one.source} is silent. {back} --detach; then the same command begins with a backup"
    else:
        remedy = f"follow it: holdfast migrate {service} --to {one.target}" + (f"; or {back}" if one.source else "")
    raise Conflict(
        f"service.{service} is moving from {one.source or 'a backup'} to {one.target}: {seen.doing}",
        remedy=remedy,
        code="move_under_way",
    )
