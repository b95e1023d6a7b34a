"""What a new order for a node is signed on: the next counter, and the newest pulse of the node that was verified."""

from argparse import Namespace

import msgspec
from msgspec import Struct

from holdfast.cli.flags import repeated
from holdfast.cli.fleet.hub_identity import state_dir
from holdfast.cli.orders.order_fleet import ORDERS_SEEN
from holdfast.cli.orders.seen_pulses import BYTES_MAX, SeenPulse, SeenPulses, is_put_back, newer, seen
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Corrupt, Invalid, Unreachable
from holdfast.model.applied import Applied
from holdfast.model.order import ACTIONS, EXPIRY_S, Arguments, SignedOrder
from holdfast.model.report import SignedPulse
from holdfast.model.trust import Trust
from holdfast.ports.hub_link import FleetReader, OrderDesk
from holdfast.trust import orders
from holdfast.trust.approval import missing


class Basis(Struct, frozen=True):
    counter: int
    pulse: SignedPulse  # the newest that this machine verified


def of(hub: OrderDesk, applied: Applied, node: str, args: Namespace, box: Toolbox, resync: bool = False) -> Basis:
    """The counter is one more than the node's signed pulse and every waiting order has. If the hub hides an order, the
    node refuses the new one as a replay; nothing else happens. `resync`: the node's state may have been put back."""
    waiting = max((view.counter for view in hub.orders(node, ORDERS_SEEN)), default=0)
    shown = _shown(hub, applied, node, args, box)
    memory = SeenPulses(box.disk, state_dir(box.environ), applied.fleet_id)
    before = memory.of(node, shown.key)
    if is_put_back(shown, before) and not resync:
        raise Corrupt(
            f"the state of {node} was put back: it signs that it used the order counter {shown.counter} last, and this "
            f"machine has seen {before.counter if before else 0} signed by it",
            remedy=f"holdfast resync {node}{repeated(args)}",
            code="resync_needed",
        )
    newest = shown if resync else newer(shown, before)
    if newest is not shown and newest.life != shown.life:
        box.terminal.warn(
            f"the hub shows a pulse of {node} from an earlier start of its agent than this machine has seen; the order "
            "names the newer one"
        )
    if not is_put_back(newest, before):
        memory.remember(node, newest)
    return Basis(max(newest.counter, before.counter if before else 0, waiting) + 1, newest.signed)


def drafted(
    action: str,
    target: str,
    node: str,
    arguments: Arguments,
    hub: OrderDesk,
    applied: Applied,
    args: Namespace,
    box: Toolbox,
    expires_in_s: float = EXPIRY_S,
    leap: int = 0,
) -> tuple[SignedOrder, str]:
    """A new order without a signature, and its id; `leap` leaves counters to other commands."""
    basis = of(hub, applied, node, args, box, resync=action == "resync")
    now_s = box.clock.now_s()
    nonce, id = box.keys.random_hex(16), box.keys.random_hex(16)
    counter, until_s = basis.counter + leap, now_s + expires_in_s
    content, spoken = orders.draft(
        applied.fleet_id, node, target, action, arguments, counter, nonce, id, now_s, until_s, basis.pulse
    )
    return SignedOrder(content, spoken, ()), id


def lacking(action: str, target: str, key: str, trust: Trust) -> str | None:
    """What one signature of this key leaves missing, as text."""
    return missing(trust, (key,), ACTIONS[action].grade, (orders.scope_address(target),))


def _shown(hub: OrderDesk, applied: Applied, node: str, args: Namespace, box: Toolbox) -> SeenPulse:
    from holdfast.trust import reports

    answer = hub.nodes() if isinstance(hub, FleetReader) else None
    found = reports.verify(answer, applied, box.clock.now_s()).nodes.get(node) if answer is not None else None
    if found is None or found.view.pulse is None or not found.key:
        raise Unreachable(
            f"{node} has not reported yet, and an order names the newest report that its node signed",
            remedy=f"wait until it has joined: holdfast node show {node}{repeated(args)}",
            code="not_heard",
        )
    if found.pulse is None:
        raise Conflict(
            f"the newest pulse of {node} is not proven ({found.doubt}), so no order can name it",
            remedy=f"holdfast node show {node}{repeated(args)}",
            code="counter_unknown",
        )
    if not found.pulse.life:
        raise Conflict(
            f"the agent of {node} is of an earlier release ({found.pulse.release or 'unknown'}), which cannot read "
            "the orders of this one",
            remedy=f"install this release on {node} and restart its agent, then repeat the command",
            code="agent_too_old",
        )
    return seen(found.view.pulse, found.pulse, found.key)


def offline_pulse(fleet: str, node: str, file: str, box: Toolbox) -> SignedPulse:
    """From a file that `node show --pulse` wrote, else the newest that this machine verified."""
    if not file:
        before = SeenPulses(box.disk, state_dir(box.environ), fleet).of(node)
        if before is None:
            raise Invalid(
                f"this machine has seen no pulse of {node}, and an order names the newest one",
                remedy=f"where a hub is reached: holdfast node show {node} --pulse; give what it prints to this "
                "command with --pulse FILE",
                code="not_heard",
            )
        return before.signed
    content = box.disk.read(file, BYTES_MAX)
    try:
        return msgspec.json.decode(content or b"", type=SignedPulse)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Invalid(
            f"{file} is not a pulse: {trouble}",
            remedy=f"the file must have what this command prints: holdfast node show {node} --pulse",
            code="usage",
        ) from trouble
