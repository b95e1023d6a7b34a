"""Compose the check-ins of this node: what is new for the hub, and how long it may hold the request."""

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.link.audit_copy import AuditCopy
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.link.pace import Pace
from holdfast.agent.link.pulse import Pulses
from holdfast.agent.link.report import Reporter
from holdfast.model.cadence import Cadence
from holdfast.model.checkin import HOLD_S_MAX, CheckIn, CheckInAnswer
from holdfast.model.report import SignedPulse
from holdfast.ports.clock import Clock

SOON_S = 0.001  # a heartbeat that is due so soon is sent now: a timer so short may end before its time


class Messages:
    """`address` is the one that this node joined with."""

    def __init__(
        self,
        *,
        reporter: Reporter,
        pulses: Pulses,
        accepting: Accepting,
        results: OrderResults,
        audit_copy: AuditCopy,
        pace: Pace,
        clock: Clock,
        node: str,
        address: str,
    ) -> None:
        self._reporter = reporter
        self._pulses = pulses
        self._accepting = accepting
        self._results = results
        self._audit_copy = audit_copy
        self._clock = clock
        self._node = node
        self._address = address
        self._beat_due_s = 0.0
        self._is_fresh = True  # something is to be said that the hub does not know
        self._hub_has = ""  # digest of the report that the hub holds
        self.pace = pace

    def freshen(self) -> None:
        """The next message is sent at once."""
        self._is_fresh = True

    def now_s(self) -> float:
        return self._clock.monotonic_s()

    def beat_in_s(self) -> float:
        return max(self._beat_due_s - self.now_s(), 0.0)

    def running(self) -> int:
        return self._pulses.running() or 0

    def next(self, hold: bool, now_s: float) -> CheckIn:
        beat = now_s >= self._beat_due_s - SOON_S
        if self._reporter.look() or self._reporter.is_wanted:
            self._is_fresh = True
        wait_s = 0.0
        if hold and not self._is_fresh:
            wait_s = min(self.pace.cadence.poll_s, HOLD_S_MAX)
            if not beat:
                wait_s = min(wait_s, max(self._beat_due_s - now_s, 0.0))
        pulse: SignedPulse | None = None
        report = b""
        if beat or self._is_fresh:
            pulse = self._pulses.pulse(self._reporter.digest)
            if self._reporter.digest != self._hub_has or self._reporter.is_wanted:
                report = self._reporter.content
        return CheckIn(
            self._node,
            self._accepting.seen,
            beat,
            pulse,
            report,
            self._results.waiting() if self._results.unsent else (),
            wait_s,
            self._clock.now_s(),
            (),
            self._address if pulse is not None else "",
            self._audit_copy.lines(),
        )

    def answered(self, message: CheckIn, answer: CheckInAnswer, sent_s: float) -> None:
        if message.heartbeat:
            self._audit_copy.turn()
            self._beat_due_s = sent_s + self.pace.cadence.heartbeat_s
        if message.pulse is not None:
            self._is_fresh = False
        if message.report:
            self._hub_has = self._reporter.digest
            self._reporter.sent()
        elif answer.report_wanted:
            self._hub_has = ""
            self._is_fresh = True
        self._audit_copy.seen(answer.audit_seen)

    def take_cadence(self, asked: Cadence) -> None:
        if self.pace.take(asked):
            self._beat_due_s = min(self._beat_due_s, self.now_s() + self.pace.cadence.heartbeat_s)
