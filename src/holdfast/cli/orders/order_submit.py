"""`holdfast order submit FILE`: send an order with enough signatures to the hub."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.orders import order_file, order_fleet, order_list
from holdfast.cli.tools import Toolbox
from holdfast.errors import Failed, NotPermitted, SignatureRequired, Unreachable
from holdfast.model.applied import Applied
from holdfast.model.order_view import OrderView
from holdfast.ports.hub_link import OrderDesk
from holdfast.trust import orders
from holdfast.wire import faults

DETAILS = """\
Checks the order as its node will, then submits it to the hub, where it waits until the node fetches it or it expires.
With --wait the output tells whether the node signed the result ("signed by NODE") or only the hub reports it
("unverified"). An order that lacks a signature is not submitted (exit 4); the message names the operators who can sign.

examples:
  holdfast order submit purge.order
  holdfast order submit purge.order --wait --json
"""

WAIT_S = 30.0
FETCH_S = 5.0  # a node that is connected has fetched an order by then
PROOF_S = 5.0  # a node's next signed report follows its result
PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
_ENDED = ("done", "failed", "refused", "expired")

Meanwhile = Callable[[], None]


class NodeWaits(Failed):
    """The node got the order and can neither begin nor refuse it: it signed why."""

    code = "order_waits"


def declare(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file written by holdfast order sign")
    parser.add_argument("--wait", action="store_true", help="wait up to 30 s for the result")


def run(args: Namespace, box: Toolbox) -> int:
    return submit(order_file.open_file(args.file, box.disk), args, box, args.file, written=True)


def submit(file: order_file.OrderFile, args: Namespace, box: Toolbox, save_as: str, written: bool = False) -> int:
    """An order that lacks a signature is written to the file, for the next operator to sign."""
    hub = order_fleet.reached(args, box)
    applied = order_fleet.applied_of(hub, args, box)
    order = file.order
    order_fleet.of(applied).check_node(order.node)
    try:
        orders.verify(file.signed, applied.fleet_id, order.node, applied.trust, box.clock.now_s())
    except SignatureRequired as trouble:
        if not written:
            box.disk.replace(save_as, order_file.write(file), 0o600)
        where = repeated(args)
        raise SignatureRequired(
            trouble.message,
            remedy=f"holdfast sign {quote(save_as)} --key KEY && holdfast order submit {quote(save_as)}{where}",
        ) from trouble
    desk = order_fleet.desk(hub, args, box)
    taken = desk.submit(file.signed)
    view, verified = None, False
    if getattr(args, "wait", False):
        view, verified = awaited(desk, applied, order.node, taken, box)
    if args.json:
        told = {
            "id": taken,
            "node": order.node,
            "counter": order.counter,
            "submitted": True,
            "order": view,
            "verified": verified,
        }
        box.terminal.say_raw(msgspec.json.encode(told).decode())
    elif view is None:
        box.terminal.say(f"Submitted: order {taken} waits for {order.node}.")
        box.terminal.remark(f"Next: holdfast order list --node {order.node}{repeated(args)}")
    else:
        by = f" ({order_list.whose(view, verified)})" if view.result else ""
        box.terminal.say(f"{view.state}: {view.result.message if view.result else taken}{by}")
    if view is not None:
        _refuse_bad_end(view)
        if not verified:
            box.terminal.warn(
                f"unverified: no signed report of {order.node} has this result, only the hub does; check again with: "
                f"holdfast order list --node {order.node}{repeated(args)}"
            )
    return 0


def awaited(
    hub: OrderDesk,
    applied: Applied,
    node: str,
    order: str,
    box: Toolbox,
    wait_s: float = WAIT_S,
    slow: str = "",
    meanwhile: Meanwhile = lambda: None,
) -> tuple[OrderView, bool]:
    """The result, and whether the node signed it: its signed report may arrive a moment later. `slow`: the node to name
    if it does not fetch the order. `meanwhile` is called between two looks."""
    began_s = box.clock.monotonic_s()
    deadline_s = began_s + wait_s
    pause_s = PAUSE_S
    said_s: float | None = None
    while True:
        view = _found(hub.orders(node, order_fleet.ORDERS_SEEN), order)
        is_over = box.clock.monotonic_s() > deadline_s
        if view is not None and view.state in _ENDED:
            verified = order_fleet.is_verified(view, order_fleet.signed_results(hub, applied, box))
            said_s = said_s if said_s is not None else box.clock.monotonic_s()
            if verified or view.result is None or is_over or box.clock.monotonic_s() - said_s > PROOF_S:
                return view, verified
        elif is_over:
            raise Unreachable(
                f"no result of order {order} from {node} within {wait_s:.0f} s",
                remedy=f"`holdfast order list --node {node}` shows the result when it arrives",
                code="no_result",
            )
        elif box.clock.monotonic_s() - began_s > FETCH_S:
            _check_node(hub, applied, node, order, box)
            if slow and view is not None and view.state == "waiting":
                box.terminal.remark(
                    f"{slow} has not fetched order {order} yet: its agent or its connection may be down"
                )
                slow = ""
        meanwhile()
        box.clock.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_S_MAX)


def _check_node(hub: OrderDesk, applied: Applied, node: str, order: str, box: Toolbox) -> None:
    waits = order_fleet.waits(hub, applied, node, box)
    if waits is not None:
        raise NodeWaits(
            f"{node} takes no order: {waits.message}; order {order} is valid for a while and may still run",
            remedy=waits.remedy,
        )


def _found(views: Sequence[OrderView], order: str) -> OrderView | None:
    return next((view for view in views if view.id == order), None)


def _refuse_bad_end(view: OrderView) -> None:
    result = view.result
    message = result.message if result else f"order {view.id} expired before the node fetched it"
    theirs, remedy = result.remedy if result else "", "`holdfast order list` shows every order with its result"
    code = result.code if result else ""
    if view.state == "failed":
        text = f"the order failed on {view.node}: {message}"
        raise faults.passed_on(Failed, text, theirs, remedy=remedy, code=code or "failed")
    if view.state in ("refused", "expired"):
        text = f"{view.node} did not run the order: {message}"
        raise faults.passed_on(NotPermitted, text, theirs, remedy=remedy, code=code or view.state)
