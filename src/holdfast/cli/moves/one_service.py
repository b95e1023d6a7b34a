"""Move one service: look at its nodes, plan, ask, sign, and follow it."""

from argparse import Namespace
from typing import Any

from msgspec import UNSET

from holdfast.cli.fleet.commit_plan import carry_out
from holdfast.cli.fleet.session import Standing
from holdfast.cli.moves import following, pinned_file, planned_move, replaced_node, resealed, under_way
from holdfast.cli.moves.looking import look
from holdfast.cli.moves.planned_move import Planned
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.model.applied import Applied
from holdfast.planning.move_target import home
from holdfast.planning.moving import came_from, plan_abort


def run(service: str, args: Namespace, box: Toolbox) -> int:
    current, view = look(args, box)
    if args.abort:
        node = came_from(service, view.applied)
        sealed = resealed.for_node(service, node, view.applied, args, box)
        found = Planned(plan_abort(service, view.applied, current.formats, sealed.contents), node, sealed)
    else:
        if args.to == (node := home(service, view.applied)):
            if args.backup:
                return replaced_node.again(service, args, box)
            return following.run(service, node, current, view, args, box)
        found = planned(service, current, view, args, box)
    last = (current.target, current.heads, args, box, None)
    return carry_out(found.plan, view.applied, *last, first=lambda: written(service, found, view, args, box))


def written(service: str, found: Planned, view: FleetView, args: Namespace, box: Toolbox) -> dict[str, Any]:
    """The fleet directory follows: what it says must not undo the move."""
    pinned = pinned_file.write(service, found.node, view.applied, args, box)
    return pinned | resealed.write(found.sealed, args, box)


def planned(service: str, current: Standing, view: FleetView, args: Namespace, box: Toolbox) -> Planned:
    under_way.refuse(service, view, box, with_backup=bool(args.backup))
    return planned_move.planned(service, current, view, args, box)


def services_on(node: str, applied: Applied) -> list[str]:
    entries = applied.table.of_kind("service")
    return sorted(name for name, entry in entries.items() if entry.node is not UNSET and entry.node == node)
