"""Refusals on their way into the audit log: each its own line, until a hub floods; then one line with a count."""

from collections import Counter

from msgspec.structs import replace

from holdfast.model.audit import Event
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.clock import Clock

LINES_PER_MINUTE = 100
KINDS_MAX = 100  # of folded lines; what goes beyond is one kind


class Refusals:
    def __init__(self, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._minute = 0
        self._lines = 0
        self.folded: Counter[Event] = Counter()

    def note(self, event: Event) -> bool:
        """True when it got a line of its own."""
        self.turn()
        if self._lines < LINES_PER_MINUTE:
            self._lines += 1
            self._audit.append(event)
            return True
        alike = replace(event, target="", detail="folded", source="")  # who and what are few; the rest is his to choose
        if alike not in self.folded and len(self.folded) >= KINDS_MAX:
            alike = Event("several", "several", result="refused", detail="folded")
        self.folded[alike] += 1
        return False

    def turn(self) -> None:
        """Write what was only counted, once its minute is over."""
        minute = int(self._clock.monotonic_s() // 60)
        if minute == self._minute:
            return
        self._minute, self._lines = minute, 0
        folded, self.folded = self.folded, Counter()
        for event, count in folded.items():
            self._audit.append(replace(event, count=count), durable=False)
