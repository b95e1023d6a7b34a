"""Verbs that are one order per node: sign it, submit it to the hub, wait for the result."""

from argparse import Namespace
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_basis, order_fleet, order_results, order_sign, order_submit
from holdfast.cli.orders.order_results import Ended, Given
from holdfast.cli.orders.order_submit import Meanwhile, NodeWaits
from holdfast.cli.tools import Toolbox
from holdfast.errors import HoldfastError, SignatureRequired, TryLater
from holdfast.model import ssh_key
from holdfast.model.duration import aged
from holdfast.model.order import EXPIRY_S, NAMESPACE
from holdfast.ports.hub_link import OrderDesk
from holdfast.ports.signer import Signer

WAIT = "2m"
NONE: Mapping[str, str] = {}


def declare_shared(parser: Parser) -> None:
    parser.add_argument(
        "--detach", action="store_true", help="submit the order and return; holdfast order list shows it"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", default=WAIT, help=f"how long to wait for the result (default {WAIT})"
    )


def carry_out(
    action: str,
    target: str,
    nodes: Sequence[str],
    view: FleetView,
    args: Namespace,
    box: Toolbox,
    arguments: Mapping[str, str] = NONE,
    meanwhile: Meanwhile = lambda: None,
) -> int:
    """`meanwhile` is called now and then while it waits."""
    given = ordered(action, target, nodes, arguments, view, args, box)
    if args.detach:
        return order_results.show_detached(action, target, given, args, box)
    return order_results.show(action, target, ended(given, view, args, box, meanwhile), args, box)


def ordered(
    action: str,
    target: str,
    nodes: Sequence[str],
    arguments: Mapping[str, str],
    view: FleetView,
    args: Namespace,
    box: Toolbox,
) -> list[Given]:
    """Sign one order per node, as a signature is valid for one node only, and submit them."""
    order_sign.check_action(action)
    order_sign.seconds(args.timeout, "--timeout")  # refused before anything is signed
    desk = order_fleet.desk(view.hub, args, box)
    signer = operator_signer(view.applied.trust.operators, args, box)
    refuse_if_hopeless(action, target, nodes, arguments, signer, view, args)
    given: list[Given] = []
    for node in nodes:
        try:
            given.append(_submit(action, target, node, arguments, desk, signer, view, args, box))
        except HoldfastError as trouble:
            if given:
                trouble.message += f"; {', '.join(one.node for one in given)} has got the order already and may run it"
            raise
        except KeyboardInterrupt:
            _tell_what_goes_on(given, args, box)
            raise
    _name_silent(given, view, args, box)
    return given


def _name_silent(given: Sequence[Given], view: FleetView, args: Namespace, box: Toolbox) -> None:
    for one in given:
        silence = view.nodes[one.node].silence
        if silence:
            box.terminal.remark(
                f"{silence}: it runs order {one.id} if it is back within {aged(EXPIRY_S)} and its agent did not "
                f"restart; to take the order back: holdfast order cancel {one.id}{repeated(args)}"
            )


def ended(
    given: Sequence[Given], view: FleetView, args: Namespace, box: Toolbox, meanwhile: Meanwhile = lambda: None
) -> list[Ended]:
    desk = order_fleet.desk(view.hub, args, box)
    until_s = box.clock.monotonic_s() + order_sign.seconds(args.timeout, "--timeout")
    found: list[Ended] = []
    try:
        for one in given:
            found.append(_end(desk, one, view, until_s - box.clock.monotonic_s(), box, meanwhile))
    except KeyboardInterrupt:
        _tell_what_goes_on(given[len(found) :], args, box)
        raise
    return found


def _tell_what_goes_on(given: Sequence[Given], args: Namespace, box: Toolbox) -> None:
    """After Ctrl-C: the order stays at the hub, and runs without this command."""
    for one in given:
        box.terminal.remark(
            f"Stopped waiting. Order {one.id} for {one.node} stays: it runs, or is over, without this command. Its "
            f"result: holdfast order list --node {one.node}{repeated(args)}; to take it back before the node has "
            f"fetched it: holdfast order cancel {one.id}{repeated(args)}"
        )


def refuse_if_hopeless(
    action: str,
    target: str,
    nodes: Sequence[str],
    arguments: Mapping[str, str],
    signer: Signer,
    view: FleetView,
    args: Namespace,
) -> None:
    """Fail before asking or signing if one signature of this operator cannot be enough."""
    lacking = order_basis.lacking(action, target, ssh_key.line(signer.public_key), view.applied.trust)
    if lacking is None:
        return
    first, *others = nodes
    raise SignatureRequired(
        f"your signature alone cannot {action} {target}: {lacking}",
        remedy=order_sign.commands(action, target, first, arguments, view.applied.trust, args)
        + "".join(
            f" && {order_sign.commands(action, target, node, arguments, view.applied.trust, args)}" for node in others
        ),
    )


def _submit(
    action: str,
    target: str,
    node: str,
    arguments: Mapping[str, str],
    desk: OrderDesk,
    signer: Signer,
    view: FleetView,
    args: Namespace,
    box: Toolbox,
) -> Given:
    drafted, _ = order_basis.drafted(action, target, node, arguments, desk, view.applied, args, box)
    signature = signer.sign(drafted.order, NAMESPACE)
    return Given(node, desk.submit(replace(drafted, signatures=(signature,))))


def _end(desk: OrderDesk, given: Given, view: FleetView, wait_s: float, box: Toolbox, meanwhile: Meanwhile) -> Ended:
    try:
        slow = "" if view.nodes[given.node].silence else given.node  # a silent one is named already
        got = order_submit.awaited(desk, view.applied, given.node, given.id, box, max(0.0, wait_s), slow, meanwhile)
        return Ended(given, *got)
    except (TryLater, NodeWaits) as trouble:
        return Ended(given, trouble=trouble)


def look(args: Namespace, box: Toolbox) -> FleetView:
    view = fleet_view.look(args, box)
    order_fleet.desk(view.hub, args, box)  # a ledger directory delivers no orders
    return view
