"""`holdfast rollback --with-data`: the checkpoints that belong to a rollback."""

from argparse import Namespace

from holdfast.cli.checkpoints import checkpoint_view, restoring
from holdfast.cli.checkpoints.checkpoint_view import Found
from holdfast.cli.flags import Parser
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict
from holdfast.model.deployment import deployment_of
from holdfast.model.plan import Plan


def declare(parser: Parser) -> None:
    parser.add_argument("--with-data", action="store_true", help="also restore the data that it wrote")
    restoring.declare_wait(parser)


def carry_out(found: Plan, args: Namespace, box: Toolbox) -> int:
    view = order_and_wait.look(args, box)
    rows = _checkpoints(found, view)
    restored = {f"service.{row.state.service}" for row in rows}
    for change in found.changes if not args.json else ():
        if change.blast.volumes_kept and change.kind == "update" and change.address not in restored:
            why = "no checkpoint was made before the version of now got it"
            box.terminal.remark(f"{change.address} keeps its data of now: {why}.")
    return restoring.with_version(rows, found, view, args, box, args.allow_removals)


def _checkpoints(found: Plan, view: FleetView) -> list[Found]:
    """For each service that goes back: the newest whole checkpoint that was made before its version of now got the
    data. A version that changed no program that writes got it without a checkpoint."""
    rows = []
    for change in found.changes:
        entry = view.applied.table.entries.get(change.address)
        if entry is None or change.removes or not change.address.startswith("service."):
            continue
        made = checkpoint_view.found(view, change.address.removeprefix("service."), change.node)
        got = deployment_of(entry)
        rows += [row for row in made if row.state.before == got and not row.state.mixed][-1:]
    if rows:
        return rows
    names = ", ".join(change.address for change in found.changes[:5]) or "no service"
    raise Conflict(
        f"no node has a checkpoint that was made when the applied version got the data ({names})",
        remedy="`holdfast checkpoint list` lists all checkpoints; without the data: holdfast rollback",
        code="no_checkpoint",
    )
