"""`holdfast order list`: the orders at the hub with their states and results."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser, positive
from holdfast.cli.orders import order_fleet
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model.order_view import OrderView
from holdfast.model.stream import ACTIONS as STREAMS

DETAILS = """\
Newest first. A result is "signed by NODE" if the node's own signed report contains it, and "unverified" if only the
hub reports it. A node's report has only its newest results; older ones are in `holdfast audit --node NODE`. The message
beside a result is not signed: the hub passes it on. "sign again": the node did not run the order, because its agent
restarted since, its state was put back, or an earlier release signed it; it runs only with a new signature. Orders that
only opened a stream (each `holdfast logs` is one) are shown with --all.

examples:
  holdfast order list
  holdfast order list --node w1 --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("--node", metavar="NODE", default="", help="only orders for this node")
    parser.add_argument(
        "--all", action="store_true", help="also orders that only opened a stream, such as those of logs"
    )
    parser.add_argument("-n", "--limit", metavar="N", type=positive, default=20, help="at most N orders (default 20)")


def run(args: Namespace, box: Toolbox) -> int:
    hub = order_fleet.reached(args, box)
    desk = order_fleet.desk(hub, args, box)
    applied = order_fleet.applied_of(hub, args, box)
    if args.node:
        order_fleet.of(applied).check_node(args.node)
    found = _shown(desk.orders(args.node, args.limit if args.all else order_fleet.ORDERS_SEEN), args)
    results = order_fleet.signed_results(hub, applied, box)  # read after the orders: not older than they
    if args.json:
        told = [document(view, order_fleet.is_verified(view, results)) for view in found]
        box.terminal.say_raw(msgspec.json.encode({"orders": told}).decode())
        return 0
    if not found:
        box.terminal.remark("There are no orders; holdfast order sign creates one.")
    rows = [_cells(view, order_fleet.is_verified(view, results)) for view in found]
    for line in tables.lines(rows, box.terminal, tail=True):
        box.terminal.say(line)
    return 0


def _shown(found: Sequence[OrderView], args: Namespace) -> list[OrderView]:
    """Without those that only opened a stream, such as each `logs`, unless asked for (N39)."""
    return [view for view in found if args.all or view.action not in STREAMS][: args.limit]


def state_of(view: OrderView) -> str:
    return "cancelled" if view.cancelled_by else view.state


def document(view: OrderView, verified: bool) -> dict[str, Any]:
    result = view.result
    return {
        "id": view.id,
        "node": view.node,
        "action": view.action,
        "target": view.target,
        "state": state_of(view),
        "by": view.by,
        "cancelled_by": view.cancelled_by or None,
        "counter": view.counter,
        "sign_again": view.sign_again,
        "attempt": view.attempt,
        "submitted_at": rfc3339(view.submitted_s),
        "expires_at": rfc3339(view.expires_s),
        "result": None
        if result is None
        else {
            "outcome": result.outcome,
            "verified": verified,
            "code": result.code,
            "message": result.message,
            "remedy": result.remedy,
            "finished_at": rfc3339(result.finished_s),
        },
    }


def _cells(view: OrderView, verified: bool) -> tuple[str, ...]:
    message = view.result.message if view.result is not None else ""
    origin = f"({whose(view, verified)})" if view.result is not None else ""
    when, what = rfc3339(view.submitted_s), f"{view.action} {view.target}"
    state = "sign again" if view.sign_again else state_of(view)
    return view.id[:12], when, state, view.node, what, f"by {view.by}", f"{message}  {origin}".strip()


def whose(view: OrderView, verified: bool) -> str:
    return f"signed by {view.node}" if verified else "unverified"
