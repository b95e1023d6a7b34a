"""Which start of an agent ("life") an order is for, and whether the node's state is older than its own pulses. Pure.

An order carries the newest pulse of the node that its signer verified. It runs only in the life of that pulse. A pulse
of a life that the journal does not know, or with a higher order counter, shows that the state was put back (X05).
"""

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt, NotPermitted
from holdfast.model.order import ACTIONS, Order, Refusal
from holdfast.model.report import PULSE_NAMESPACE, Pulse, SignedPulse
from holdfast.trust import own_signature

PULSE_BYTES_MAX = 8 * 1024
LIVES_KEPT = 256
SIGN_AGAIN = "holdfast order sign --node {node} --action {action} --target {target} --submit"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Life(Struct, frozen=True):
    id: str
    since_s: float


class Lives(Struct, frozen=True, omit_defaults=True):
    """The lives in a node's journal, the newest last. Of a pulse before `since_s` it is not known whether the journal
    had its life: the oldest lives are forgotten, and a resync covers what was lost before it."""

    known: tuple[Life, ...] = ()
    since_s: float = 0.0

    def with_new(self, life: Life) -> "Lives":
        known = (*self.known, life)
        if len(known) <= LIVES_KEPT:
            return Lives(known, self.since_s)
        return Lives(known[-LIVES_KEPT:], max(self.since_s, known[-LIVES_KEPT].since_s))

    def knows(self, id: str) -> bool:
        return any(life.id == id for life in self.known)


class SetBack(Struct, frozen=True):
    """Proof that this node's state was put back: a pulse of its own that its journal has not reached."""

    why: str
    counter: int  # of that pulse


def read(signed: SignedPulse | None, fleet: str, node: str) -> Pulse:
    """The pulse in an order, without its signature: only the node and readers of the revision know the key."""
    if signed is None:
        raise _unfit("it names no pulse of its node")
    if len(signed.pulse) > PULSE_BYTES_MAX:
        raise _unfit(f"its pulse is longer than {PULSE_BYTES_MAX} bytes")
    try:
        pulse = msgspec.json.decode(signed.pulse, type=Pulse)
    except _UNREADABLE as trouble:
        raise _unfit(f"its pulse cannot be read: {trouble}") from trouble
    if (pulse.fleet, pulse.node) != (fleet, node):
        raise _unfit(f"its pulse is of {pulse.node[:60]!r}, or of another fleet")
    if not pulse.life:
        raise _unfit("its pulse is of a release that does not tell its starts apart")
    return pulse


def own(signed: SignedPulse | None, fleet: str, node: str, key: str) -> Pulse:
    """A pulse that this node signed itself."""
    pulse = read(signed, fleet, node)
    assert signed is not None
    try:
        own_signature.verify(signed.pulse, signed.signature, PULSE_NAMESPACE, key)
    except (Corrupt, NotPermitted) as trouble:
        raise NotPermitted(
            f"the pulse that this order names is not signed by the key of {node}: {trouble.message}",
            remedy="sign the order again with the pulse that the node shows now: holdfast order sign --help",
            code="pulse_forged",
        ) from trouble
    return pulse


def set_back(pulse: Pulse, lives: Lives, highest_counter: int) -> SetBack | None:
    """`pulse` is the node's own, verified. None while the journal is at least as new as that pulse."""
    if pulse.counter > highest_counter:
        why = f"it signed that it had used the order counter {pulse.counter}, but its journal ends at {highest_counter}"
        return SetBack(why, pulse.counter)
    if lives.knows(pulse.life) or pulse.at_s < lives.since_s:
        return None
    return SetBack("it signed a pulse in a start of its agent that its journal does not know", pulse.counter)


def refusal(order: Order, pulse: Pulse, current: str) -> Refusal | None:
    """Why the order may not run in this life of the agent."""
    if pulse.life == current or (order.after_restart and ACTIONS[order.action].grade == "apply"):
        return None
    return Refusal(
        "other_life",
        f"the agent of {order.node} has restarted since this order was signed, so it needs a new signature",
        "if it is still wanted, sign it again: "
        + SIGN_AGAIN.format(node=order.node, action=order.action, target=order.target),
    )


def _unfit(why: str) -> Corrupt:
    return Corrupt(
        f"this order is malformed: {why}",
        remedy="sign it again (`holdfast order sign --help`), and submit the file unchanged",
        code="order_malformed",
    )
