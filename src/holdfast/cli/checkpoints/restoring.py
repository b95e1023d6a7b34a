"""Restore checkpoints, by orders to their nodes; then apply the version that wrote the data, if it is another one."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from holdfast.cli.checkpoints import checkpoint_view
from holdfast.cli.checkpoints.checkpoint_view import Found
from holdfast.cli.flags import Parser
from holdfast.cli.fleet import commit_plan, session
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait, order_results
from holdfast.cli.tools import Toolbox
from holdfast.errors import HoldfastError
from holdfast.model.plan import Plan

ACTION = "restore-checkpoint"
WAIT = "1h"  # a node copies the whole checkpoint before it stops anything


def declare_wait(parser: Parser) -> None:
    parser.add_argument(
        "--timeout", metavar="TIME", default=WAIT, help=f"how long to wait until the data is restored (default {WAIT})"
    )


def check(rows: Sequence[Found], then: str, view: FleetView, args: Namespace, box: Toolbox) -> None:
    """Before anything is shown or asked: one signature of this operator is enough for every order."""
    signer = operator_signer(view.applied.trust.operators, args, box)
    for row in rows:
        order_and_wait.refuse_if_hopeless(ACTION, _target(row), (row.node,), _arguments(row, then), signer, view, args)


def tell(rows: Sequence[Found], args: Namespace, box: Toolbox) -> None:
    for row in rows if not args.json else ():
        name = row.state.service
        box.terminal.say(f"service.{name} gets the data of checkpoint {checkpoint_view.line(row)}.")
        box.terminal.say(f"It stops meanwhile; its data of now becomes another checkpoint on {row.node}.")


def data_only(rows: Sequence[Found], view: FleetView, args: Namespace, box: Toolbox) -> int:
    """The applied version goes on with the restored data."""
    check(rows, "start", view, args, box)
    tell(rows, args, box)
    box.terminal.confirm("Restore this data?", "not restored")
    (row,) = rows
    return order_and_wait.carry_out(ACTION, _target(row), (row.node,), view, args, box, _arguments(row, "start"))


def with_version(
    rows: Sequence[Found], plan: Plan, view: FleetView, args: Namespace, box: Toolbox, allowed: int | None = None
) -> int:
    """Data first, and each service held: the version of now does not run with the data of then, nor the other way."""
    check(rows, "hold", view, args, box)
    tell(rows, args, box)

    done: list[dict[str, Any]] = []

    def restore() -> dict[str, Any]:
        for row in rows:
            done.append(_restored(row, view, args, box))
        return {"restored": done}

    heads = session.heads(args, box)
    try:
        return commit_plan.carry_out(plan, view.applied, view.target, heads, args, box, allowed, first=restore)
    except HoldfastError:
        if done:
            names = ", ".join(one["service"] for one in done)
            box.terminal.warn(
                f"the data of {names} is restored; if the service does not run, run the same command again, or start "
                f"the applied version with this data: holdfast start {done[0]['service']}"
            )
        raise


def _restored(row: Found, view: FleetView, args: Namespace, box: Toolbox) -> dict[str, Any]:
    given = order_and_wait.ordered(ACTION, _target(row), (row.node,), _arguments(row, "hold"), view, args, box)
    ended = order_and_wait.ended(given, view, args, box)
    trouble = order_results.trouble_of(ACTION, _target(row), ended)
    if trouble is not None:
        raise trouble
    if not args.json:
        order_results.show(ACTION, _target(row), ended, args, box)
    return {"service": row.state.service, "node": row.node, "checkpoint": row.state.id}


def _target(row: Found) -> str:
    return f"data.{row.state.service}"


def _arguments(row: Found, then: str) -> dict[str, str]:
    return {"checkpoint": row.state.id, "then": then}
