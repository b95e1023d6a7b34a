"""`holdfast order sign`: draft an order, sign it, and write it to a file or submit it."""

import re
from argparse import Namespace
from collections.abc import Mapping
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.orders import order_basis, order_file, order_fleet, order_submit
from holdfast.cli.orders.order_basis import Basis
from holdfast.cli.orders.order_fleet import OrderFleet
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model import duration, stream
from holdfast.model.nearest import hint
from holdfast.model.order import ACTIONS, EXPIRY_S, EXPIRY_S_MAX, NAMESPACE, SignedOrder
from holdfast.model.trust import Trust, threshold
from holdfast.trust import orders

DETAILS = """\
An order names one action for one node. Its signature is valid only for that node, only until it expires, and only
once. Actions that destroy need operators of grade destroy. Without --submit the order is written to a file, which other
operators sign with `holdfast sign FILE` and any operator submits with `holdfast order submit FILE`.

An order names the newest signed report (pulse) of its node and runs only until the agent there restarts; after that it
needs a new signature. With --expires, an order of grade apply may run after a restart too; if the state of the node is
put back meanwhile, such an order may run again.

Without a hub: give --counter (one more than `holdfast node show NODE` shows) and --pulse FILE (`holdfast node show NODE
--pulse > FILE`), and sign on a machine that has the fleet directory with its fleet.lock.

actions:
"""
DETAILS += "".join(
    f"  {name:<18} {rule.target}.NAME{' ' * (9 - len(rule.target))}{rule.about}\n"
    for name, rule in ACTIONS.items()
    if rule.built
)
DETAILS += """
examples:
  holdfast order sign --node w1 --action ping --submit
  holdfast order sign --node w1 --action purge --target data.web -o purge.order --expires 2d
  holdfast sign purge.order --key ~/.ssh/second && holdfast order submit purge.order
"""


def declare(parser: Parser) -> None:
    parser.add_argument("--node", metavar="NODE", help="the node that runs the order")
    parser.add_argument("--action", metavar="ACTION", help="the action (listed below)")
    parser.add_argument(
        "--target", metavar="TARGET", help="what the action is for: data.NAME, service.NAME (default: the node)"
    )
    parser.add_argument("--arg", metavar="KEY=VALUE", action="append", default=[], help="an argument; may be repeated")
    parser.add_argument("--expires", metavar="TIME", help="validity, up to 7d (default 15m)")
    parser.add_argument("--counter", metavar="N", type=int, help="sign offline with this counter, without a hub")
    parser.add_argument(
        "--pulse",
        metavar="FILE",
        help="with --counter: a pulse that `node show --pulse` printed (default: the newest this machine has seen)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write (default: NODE-ACTION-N.order)")
    parser.add_argument("--add", metavar="FILE", help="sign the order in this file instead of a new one")
    parser.add_argument("--submit", action="store_true", help="submit the order at once")
    parser.add_argument("--wait", action="store_true", help="with --submit: wait up to 30 s for the result")


def run(args: Namespace, box: Toolbox) -> int:
    if args.add:
        return add(args.add, order_file.open_file(args.add, box.disk), args, box)
    if not args.node or not args.action:
        raise Invalid(
            "an order needs a node and an action",
            remedy="holdfast order sign --node w1 --action ping --submit",
            code="usage",
        )
    check_action(args.action)
    file, fleet = _drafted(args, box)
    file = _signed(file, fleet, args, box)
    if args.submit:
        return order_submit.submit(file, args, box, save_as=args.output or _name(file))
    path = args.output or _name(file)
    box.disk.replace(path, order_file.write(file), 0o600)
    _tell(path, file, args, box)
    return 0


def add(path: str, file: order_file.OrderFile, args: Namespace, box: Toolbox) -> int:
    """Add a signature to an order that another operator drafted."""
    fleet = order_fleet.of_file(file, args, box)
    file = _signed(file, fleet, args, box)
    box.disk.replace(path, order_file.write(file), 0o600)
    if getattr(args, "submit", False):
        return order_submit.submit(file, args, box, save_as=path)
    _tell(path, file, args, box)
    return 0


def _drafted(args: Namespace, box: Toolbox) -> tuple[order_file.OrderFile, OrderFleet]:
    expires_in_s = seconds(args.expires, "--expires") if args.expires else EXPIRY_S
    arguments = _arguments(args.arg)
    if args.counter is None:
        hub = order_fleet.reached(args, box)
        applied = order_fleet.applied_of(hub, args, box)
        fleet = order_fleet.of(applied)
        fleet.check_node(args.node)
        desk = order_fleet.desk(hub, args, box)
        basis = order_basis.of(desk, applied, args.node, args, box, resync=args.action == "resync")
    else:
        fleet = order_fleet.offline(args, box)
        fleet.check_node(args.node)
        basis = Basis(args.counter, order_basis.offline_pulse(fleet.fleet, args.node, args.pulse or "", box))
    now_s = box.clock.now_s()
    content, spoken = orders.draft(
        fleet.fleet,
        args.node,
        args.target or f"node.{args.node}",
        args.action,
        arguments,
        basis.counter,
        box.keys.random_hex(16),
        box.keys.random_hex(16),
        now_s,
        now_s + expires_in_s,
        basis.pulse,
        after_restart=bool(args.expires) and ACTIONS[args.action].grade == "apply",
    )
    return order_file.of(SignedOrder(content, spoken, ()), fleet.trust), fleet


def _signed(file: order_file.OrderFile, fleet: OrderFleet, args: Namespace, box: Toolbox) -> order_file.OrderFile:
    signer = operator_signer(fleet.trust.operators, args, box)
    if not args.json:
        box.terminal.say(order_file.text(file))
    # Asks only for actions that cannot be undone, so not for a ping.
    if ACTIONS[file.order.action].grade != "apply":
        box.terminal.confirm("Sign this order?", "not signed")
    return order_file.with_signature(file, signer.sign(file.signed.order, NAMESPACE))


def _tell(path: str, file: order_file.OrderFile, args: Namespace, box: Toolbox) -> None:
    count = len(file.signed.signatures)
    if args.json:
        told = {"file": path, "id": file.order.id, "counter": file.order.counter, "signatures": count}
        box.terminal.say_raw(msgspec.json.encode(told).decode())
        return
    box.terminal.say(f"Signed: {path} has {count} signature{'s' * (count != 1)} now.")
    box.terminal.remark(f"Next: holdfast order submit {quote(path)}{repeated(args)}")


def _name(file: order_file.OrderFile) -> str:
    order = file.order
    return f"{order.node}-{order.action}-{order.counter}.order"


def commands(action: str, target: str, node: str, arguments: Mapping[str, str], trust: Trust, args: Namespace) -> str:
    """The commands that collect the signatures; each KEY is the key file of an operator who can sign."""
    file, where = f"{node}-{action}.order", repeated(args)
    said = "".join(f" --arg {quote(f'{name}={value}')}" for name, value in arguments.items())
    count = threshold(trust, ACTIONS[action].grade)
    others = "".join(f"holdfast sign {file} --key KEY{number} && " for number in range(2, count + 1))
    return (
        f"holdfast order sign --node {node} --action {action} --target {target}{said} --expires 1d -o {file}{where} "
        f"--key KEY && {others}holdfast order submit {file} --wait{where}"
    )


def check_action(action: str) -> None:
    rule = ACTIONS.get(action)
    if rule is None:
        raise Invalid(
            f"there is no action {action!r}",
            remedy=hint(action, ACTIONS)
            + f"one of: {', '.join(name for name, known in ACTIONS.items() if known.built)}",
            code="unknown_action",
        )
    if action in stream.ACTIONS:
        raise Invalid(
            f"an order for {action} opens a stream to the command that gives it, so it cannot be signed to a file",
            remedy=f"holdfast {action} SERVICE",
            code="not_by_hand",
        )
    if not rule.built:
        raise Invalid(
            f"the action {action} is not built yet",
            remedy="`holdfast order sign --help` lists the actions",
            code="not_built",
        )


def _arguments(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", key) or key in found:
            raise Invalid(f"--arg {word!r} is not KEY=VALUE, or KEY is given twice", remedy="write --arg reason=moved")
        found[key] = value
    return found


def seconds(text: str, flag: str) -> float:
    fits = re.match(duration.PATTERN, text) and "\n" not in text
    found = duration.milliseconds(text) / 1000 if fits else 0
    if not 1 <= found <= EXPIRY_S_MAX:
        raise Invalid(f"{flag} {text!r} is not a time from 1 second to 7 days", remedy="write it as 15m, 12h or 7d")
    return found
