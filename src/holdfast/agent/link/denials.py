"""Refusals on their way into the audit log: each its own line, until somebody floods; then one line with a count."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from holdfast.model.audit import Event

if TYPE_CHECKING:
    from holdfast.errors import HoldfastError
    from holdfast.ports.audit_log import AuditLog
    from holdfast.ports.clock import Clock

LINES_PER_MINUTE = 100
SOURCES_MAX = 100
TARGET = "local-api"


class Denials:
    def __init__(self, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._minute = 0
        self._lines = 0
        self._folded: Counter[str] = Counter()

    def note(self, who: str, what: str, source: str, trouble: HoldfastError) -> None:
        """Not durable: whoever is refused must not be able to make the disk work for it."""
        minute = int(self._clock.monotonic_s() // 60)
        if minute != self._minute:
            self.fold()
            self._minute, self._lines = minute, 0
        if self._lines >= LINES_PER_MINUTE:
            known = source in self._folded or len(self._folded) < SOURCES_MAX
            self._folded[source if known else "elsewhere"] += 1
            return
        self._lines += 1
        detail = f"{trouble.code}: {trouble.message}"[:300]
        self._audit.append(Event(who, what[:200], TARGET, "denied", detail, source), durable=False)

    def fold(self) -> None:
        """Write what was only counted; also when the listener ends."""
        for source, count in sorted(self._folded.items()):
            self._audit.append(Event("anonymous", "ask", TARGET, "denied", "folded", source, count), durable=False)
        self._folded.clear()
