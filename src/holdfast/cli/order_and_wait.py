"""Verbs that are one order per node: sign it, submit it to the hub, wait for the result."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.cli import (
    fleet_view,
    order_fleet,
    order_list,
    order_sign,
    order_submit,
)
from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet_view import FleetView
from holdfast.cli.terminal import harmless
from holdfast.cli.tools import Toolbox
from holdfast.errors import (
    Failed,
    HoldfastError,
    Invalid,
    SignatureRequired,
    TryLater,
    Unreachable,
)
from holdfast.model import ssh_key
from holdfast.model.order import ACTIONS, EXPIRY_S, NAMESPACE, SignedOrder
from holdfast.model.order_view import OrderView
from holdfast.model.verified_report import VerifiedReport
from holdfast.ports.hub_link import OrderDesk
from holdfast.ports.signer import Signer
from holdfast.trust import orders
from holdfast.trust.approval import missing

WAIT = "2m"


class Given(Struct, frozen=True):
    """One order at the hub."""

    node: str
    id: str


class Ended(Struct, frozen=True):
    """The result of an order; `trouble` if no result arrived."""

    given: Given
    view: OrderView | None = None
    verified: bool = False
    trouble: TryLater | None = None


def declare_shared(parser: Parser) -> None:
    parser.add_argument(
        "--detach", action="store_true", help="submit the order and return; holdfast order list shows it"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", default=WAIT, help=f"how long to wait for the result (default {WAIT})"
    )


def declare_service(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml)")
    parser.add_argument(
        "-n", "--node", metavar="NODE", help="only on this node (default: every node where it is placed or runs)"
    )
    declare_shared(parser)


def serve(action: str, args: Namespace, box: Toolbox) -> int:
    """Order an action for one service on all its nodes."""
    name = args.service.removeprefix("service.")
    view = look(args, box)
    return carry_out(action, f"service.{name}", places(name, view, args.node, args), view, args, box)


def carry_out(action: str, target: str, nodes: Sequence[str], view: FleetView, args: Namespace, box: Toolbox) -> int:
    """Sign one order per node: a signature is valid for one node only."""
    order_sign.check_action(action)
    wait_s = order_sign.seconds(args.timeout, "--timeout")
    desk = order_fleet.desk(view.hub, args, box)
    signer = order_sign.operator_signer(view.applied.trust, args, box)
    refuse_if_hopeless(action, target, nodes[0], signer, view, args)
    given = [_submit(action, target, node, desk, signer, view, args, box) for node in nodes]
    if args.detach:
        return _detached(action, target, given, args, box)
    until_s = box.clock.monotonic_s() + wait_s
    ended = [_end(desk, one, view, until_s - box.clock.monotonic_s(), box) for one in given]
    return _told(action, target, ended, args, box)


def refuse_if_hopeless(action: str, target: str, node: str, signer: Signer, view: FleetView, args: Namespace) -> None:
    """Fail before asking or signing if one signature of this operator cannot be enough."""
    grade, key = ACTIONS[action].grade, ssh_key.line(signer.public_key)
    lacking = missing(view.applied.trust, (key,), grade, (orders.scope_address(target),))
    if lacking is None:
        return
    file, where = f"{node}-{action}.order", repeated(args)
    raise SignatureRequired(
        f"your signature alone cannot {action} {target}: {lacking}",
        remedy=f"holdfast order sign --node {node} --action {action} --target {target} --expires 1d -o {file}{where} "
        f"--key KEY && holdfast order submit {file} --wait{where}; more signatures: holdfast sign {file} --key KEY",
    )


def _submit(
    action: str,
    target: str,
    node: str,
    desk: OrderDesk,
    signer: Signer,
    view: FleetView,
    args: Namespace,
    box: Toolbox,
) -> Given:
    now_s = box.clock.now_s()
    counter = order_fleet.next_counter(desk, view.applied, node, args, now_s)
    nonce, id = box.random_hex(16), box.random_hex(16)
    content, spoken = orders.draft(
        view.applied.fleet_id, node, target, action, {}, counter, nonce, id, now_s, now_s + EXPIRY_S
    )
    return Given(node, desk.submit(SignedOrder(content, spoken, (signer.sign(content, NAMESPACE),))))


def _end(desk: OrderDesk, given: Given, view: FleetView, wait_s: float, box: Toolbox) -> Ended:
    try:
        return Ended(given, *order_submit.awaited(desk, view.applied, given.node, given.id, box, max(0.0, wait_s)))
    except TryLater as trouble:
        return Ended(given, trouble=trouble)


# ---- telling


def _detached(action: str, target: str, given: Sequence[Given], args: Namespace, box: Toolbox) -> int:
    if args.json:
        told = [{"id": one.id, "node": one.node, "state": "waiting"} for one in given]
        _say({"action": action, "target": target, "orders": told}, box)
        return 0
    for one in given:
        box.terminal.say(f"Submitted: order {one.id} waits for {one.node}.")
    box.terminal.remark(f"Next: holdfast order list{repeated(args)}")
    return 0


def _told(action: str, target: str, ended: Sequence[Ended], args: Namespace, box: Toolbox) -> int:
    if args.json:
        _say({"action": action, "target": target, "orders": [_document(one) for one in ended]}, box)
    for one in ended:
        if not args.json:
            box.terminal.say(harmless(_line(action, target, one)))
        if one.view is not None and one.view.result is not None and not one.verified:
            box.terminal.warn(f"unverified: no signed report of {one.given.node} has this result; only the hub does")
    trouble = _trouble(action, target, ended)
    if trouble is not None:
        raise trouble
    return 0


def _say(document: Mapping[str, Any], box: Toolbox) -> None:
    box.terminal.say(msgspec.json.encode(document).decode())


def _document(one: Ended) -> dict[str, Any]:
    if one.view is None:
        return {"id": one.given.id, "node": one.given.node, "state": "unknown", "result": None}
    return order_list.document(one.view, one.verified)


def _line(action: str, target: str, one: Ended) -> str:
    if one.view is None or one.view.result is None:
        state = one.view.state if one.view is not None else "no result yet"
        return f"{one.given.node}: {action} {target}: {state}"
    said = f": {one.view.result.message}" if one.view.result.message else ""
    by = order_list.whose(one.view, one.verified)
    return f"{one.given.node}: {action} {target} {one.view.state}{said} ({by})"


def _trouble(action: str, target: str, ended: Sequence[Ended]) -> HoldfastError | None:
    """A failed order comes before a missing result."""
    bad = [one for one in ended if one.view is not None and one.view.state in ("failed", "refused")]
    if bad:
        result = bad[0].view.result if bad[0].view is not None else None
        why = result.message if result is not None else "no reason was given"
        names = ", ".join(f"{one.given.node} {one.view.state}" for one in bad if one.view is not None)
        return Failed(
            f"{action} {target} failed ({names}): {why}",
            remedy=(result.remedy if result is not None else "") or "holdfast order list shows every order",
            code=(result.code if result is not None else "") or "failed",
        )
    late = [one.given.node for one in ended if one.view is None or one.view.state != "done"]
    if not late:
        return None
    return Unreachable(
        f"no result from {', '.join(late)} in time; the order is valid for 15 minutes and may still run",
        remedy=f"holdfast order list --node {late[0]} shows the order; holdfast node list shows the node's status",
        code="no_result",
    )


# ---- where


def look(args: Namespace, box: Toolbox) -> FleetView:
    view = fleet_view.look(args, box)
    order_fleet.desk(view.hub, args, box)  # a ledger directory delivers no orders
    return view


def places(service: str, view: FleetView, only: str | None, args: Namespace) -> tuple[str, ...]:
    """Where it is applied, and where it runs as a standby; `only` narrows that to one node."""
    entry = view.applied.table.entries.get(f"service.{service}")
    if entry is None or entry.node is UNSET:
        raise _unknown(service, view)
    runs = sorted(name for name, one in view.nodes.items() if name != entry.node and stands_in(one, service))
    found = (entry.node, *runs)
    if only is None:
        return found
    fleet_view.node(view, only, args)
    if only not in found and only not in entry.failover:
        raise Invalid(
            f"{service} is neither placed on {only} nor running there as a standby",
            remedy=f"omit -n, or use one of: {', '.join(found)}",
            code="not_placed",
        )
    return (only,)


def stands_in(one: VerifiedReport, service: str) -> bool:
    states = one.report.services if one.report is not None and not one.is_old else ()
    return any(state.service == service and state.standby for state in states)


def _unknown(service: str, view: FleetView) -> Invalid:
    if f"service.{service}" in view.applied.table.tombstones:
        return Invalid(
            f"{service} was removed; at most its data remains",
            remedy=f"holdfast retired shows the data; to run the service again: holdfast deploy {service}",
            code="not_applied",
        )
    return fleet_view.no_service(service, sorted(view.applied.table.of_kind("service")))
