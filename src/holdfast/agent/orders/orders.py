"""Take the orders that a hub delivers: begin each, refuse it, or answer what became of it."""

from collections.abc import Sequence

from holdfast.agent.link.order_results import HUB, OrderResults
from holdfast.agent.orders.crash_recovery import CrashRecovery
from holdfast.agent.orders.order_gate import OrderGate
from holdfast.agent.orders.refusing import Refusing
from holdfast.agent.orders.running import Running
from holdfast.agent.orders.stream_orders import StreamOrders
from holdfast.errors import Corrupt, Failed, HoldfastError, TryLater
from holdfast.model.order import Delivered, HubOrder, Refusal, SignedOrder, decode_order
from holdfast.model.report import SignedPulse

HUB_ID_MAX = 64  # longer ids are not answered
INBOX_MAX = 256


class Orders:
    """`inbox` holds what came while other work was under way."""

    def __init__(
        self,
        *,
        gate: OrderGate,
        results: OrderResults,
        opening: StreamOrders,
        running: Running,
        refusing: Refusing,
        recovery: CrashRecovery,
    ) -> None:
        self._gate = gate
        self._running = running
        self._refusing = refusing
        self._recovery = recovery
        self.results = results
        self.opening = opening
        self.inbox: list[Delivered] = []

    # ---- the hub's answers

    def heard(
        self, taken: Sequence[str] = (), delivered: Sequence[Delivered] = (), own_pulse: SignedPulse | None = None
    ) -> None:
        """With every answer of a hub. An order that only opens a stream waits for no other work."""
        self._gate.horizon.heard()
        if own_pulse is not None:  # before any order: it may show that this node's state was put back
            self._gate.life.heard(own_pulse)
        if taken:
            self.results.taken(taken)
        for one in delivered:
            if self.opening.is_meant(one):
                self.take(one)
            elif len(self.inbox) < INBOX_MAX:
                self.inbox.append(one)

    def emptied(self) -> list[Delivered]:
        """All of the inbox, which is empty then."""
        found, self.inbox = self.inbox, []
        return found

    # ---- taking

    def take(self, delivered: Delivered) -> None:
        """If the disk cannot be written there is no answer: the order comes again under a new lease."""
        try:
            self.results.check_room()
            if delivered.signed is not None:
                self._take_signed(delivered.signed, delivered.attempt)
            elif delivered.hub is not None:
                self._take_hub(delivered.hub, delivered.attempt)
        except HoldfastError as trouble:
            self._refusing.waits(trouble)
        else:
            self._refusing.taken()

    def recover(self) -> int:
        """At the start, before anything new: how many operations a crash had interrupted."""
        return self._recovery.settle()

    def _take_signed(self, signed: SignedOrder, attempt: int) -> None:
        try:
            order = decode_order(signed.order)
        except Corrupt as trouble:
            self._refusing.unreadable(trouble.message)
            return
        if self.opening.known(order.id, attempt) or self._running.is_known(order.id, attempt):
            return
        self._gate.check_trust()
        opens = self.opening.opens(order.action)
        try:
            proof = self._gate.verified(signed)
            refusal = self._gate.refusal(proof, opens)
        except (Failed, TryLater):
            raise
        except HoldfastError as trouble:
            why = Refusal(trouble.code, trouble.message, trouble.remedy)
            self._refusing.refuse(order.id, attempt, why, order, signed)
            return
        if refusal is None and opens:
            refusal = self.opening.begin(proof, attempt)
        elif refusal is None:
            refusal = self._running.begin(proof, signed, attempt)
        if refusal is not None:
            self.results.proven(self._refusing.refuse(order.id, attempt, refusal, order, signed))

    def _take_hub(self, order: HubOrder, attempt: int) -> None:
        """A request of the hub itself."""
        if len(order.id) > HUB_ID_MAX:
            self._refusing.unreadable(f"its id is longer than {HUB_ID_MAX} characters")
            return
        id = HUB + order.id
        if self._running.is_known(id, attempt):
            return
        refusal = self._gate.asked_refusal(order)
        if refusal is not None:
            self._refusing.refuse(id, attempt, refusal, order, order)
            return
        self._running.begin_asked(order.action, self._gate.target_of(order), id, attempt)
