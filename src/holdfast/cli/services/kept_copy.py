"""Bring a service back to the data that a node kept of it: plan a revision, show it, sign it, and wait."""

import os
from argparse import Namespace
from typing import Any

from msgspec import UNSET

from holdfast.cli.flags import repeated
from holdfast.cli.fleet import session
from holdfast.cli.fleet.commit_plan import carry_out
from holdfast.cli.moves import pinned_file, resealed
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting import way_back
from holdfast.errors import NotPermitted
from holdfast.model.report import RetiredData
from holdfast.model.verified_report import VerifiedReport
from holdfast.planning.kept_copy import never_there, plan_again, plan_kept
from holdfast.status import moves


def bring_back(name: str, node: str, data: RetiredData, view: FleetView, args: Namespace, box: Toolbox) -> int:
    current = session.standing(args, box, drafts=True)
    applied, hub = current.applied, current.hub
    if applied is None or hub is None:
        raise session.nothing_applied(current.target)
    entry = applied.table.entries.get(f"service.{name}")
    last = (current.target, current.heads, args, box, None)
    if entry is None or entry.node is UNSET:
        stone = applied.table.tombstones.get(f"service.{name}")
        removed_in = stone.removed_in if stone is not None else data.removed_in
        if removed_in < 2:
            raise never_there(name, node)
        before = way_back.target(hub, applied, removed_in - 1)[1]
        code = carry_out(plan_again(name, node, before, applied, current.formats), applied, *last)
        file = os.path.join(args.fleet, "services", name + ".toml")
        if not os.path.lexists(file):
            box.terminal.remark(f"{file} does not exist. Write it, or the next apply plans to remove {name} again.")
        return code
    _refuse_while_it_runs(name, node, entry.node, view, args)
    sealed = resealed.for_node(name, node, applied, args, box)
    plan = plan_kept(name, node, applied, current.formats, sealed.contents)

    def first() -> dict[str, Any]:
        return pinned_file.write(name, node, applied, args, box) | resealed.write(sealed, args, box)

    return carry_out(plan, applied, *last, first=first)


def _refuse_while_it_runs(name: str, node: str, home: str, view: FleetView, args: Namespace) -> None:
    """Two nodes must not run it at once, and nothing hands over here."""
    if node == home:
        raise NotPermitted(
            f"service.{name} is applied on {node}, and uses its data",
            remedy=f"`holdfast ps {name}{repeated(args)}` shows it",
            code="still_applied",
        )
    move = moves.moves_of(view.applied.table).get(name)
    if _runs(name, view.nodes[home]) and not (move is not None and moves.is_lost(move, view.nodes)):
        raise NotPermitted(
            f"service.{name} runs on {home} with newer data than the copy on {node}",
            remedy=f"move it: `holdfast migrate {name} --to {node} --force{repeated(args)}`; or go on with the older "
            f"copy: `holdfast stop {name}{repeated(args)}`, then repeat the command",
            code="runs_elsewhere",
        )


def _runs(name: str, one: VerifiedReport) -> bool:
    """A node that is silent for long does not run it, as far as an operator can know; else only a hold says so."""
    if one.report is None or one.is_old or one.status == "unhealthy":
        return False
    return not any(state.service == name and state.phase == "held" for state in one.report.services)
