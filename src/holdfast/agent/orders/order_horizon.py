"""Since when this node remembers which orders it ran: an order signed before that may have been run here already."""

from contextlib import suppress

from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError, TryLater
from holdfast.model.invite import SignedInvite, decode_invite
from holdfast.model.order import Order, Refusal
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal

FACT = "born"
SLACK_S = 60


class OrderHorizon:
    """Known from the first moment at which this clock and the hub's agree: a wrong clock must not set it for good."""

    def __init__(self, journal: Journal, clock: Clock, time: NodeTime, invite: SignedInvite) -> None:
        self._journal = journal
        self._clock = clock
        self._time = time
        self._invite = invite
        self._started_s = clock.monotonic_s()
        kept = journal.fact(FACT)
        self._born_s = int(kept) if kept is not None else None

    def heard(self) -> None:
        """With every answer of a hub; costs nothing once it is known."""
        if self._born_s is not None or not self._time.is_set:
            return
        up_s = self._clock.monotonic_s() - self._started_s
        born_s = max(int(self._time.now_s() - up_s), self._invited_s())
        with suppress(HoldfastError):  # unwritten, it is tried again; until then no order is taken
            self._journal.set_aside(FACT, b"%d" % born_s)
            self._born_s = born_s

    def _invited_s(self) -> int:
        """By an operator's clock: a machine that wakes up in 1970 was not invited then."""
        with suppress(HoldfastError):
            return decode_invite(self._invite.invite).issued_s
        return 0

    def refusal(self, order: Order) -> Refusal | None:
        if self._born_s is None:
            raise TryLater(
                "the clock of this node and the hub's never agreed, so it is not known which orders are older than it",
                remedy="on the machine whose clock is wrong: timedatectl set-ntp true",
                code="birth_unknown",
            )
        if order.not_before_s >= self._born_s - SLACK_S:
            return None
        return Refusal(
            "before_birth",
            f"this order was signed {self._born_s - order.not_before_s} s before this node began to remember which "
            "orders it ran, so it may have run already",
            f"if it is still wanted, sign it again: holdfast order sign --node {order.node} --action {order.action} "
            f"--target {order.target} --submit",
        )
