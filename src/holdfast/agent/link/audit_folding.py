"""Write refused requests into the audit log: one line each, and above 100 lines a minute only counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.model.audit import Event

if TYPE_CHECKING:
    from holdfast.errors import HoldfastError
    from holdfast.ports.audit_log import AuditLog
    from holdfast.ports.clock import Clock

LINES_PER_MINUTE = 100
KINDS_MAX = 100  # of folded lines; everything beyond these counts as one kind
LOCAL_API = "local-api"

OTHER_REFUSED = Event("several", "several", result="refused", detail="folded")
OTHER_DENIED = Event("anonymous", "ask", LOCAL_API, "denied", "folded", "elsewhere")


class AuditFolding:
    """`other` counts what belongs to no known kind. With `durable` each line is on the disk when `note` returns."""

    def __init__(self, audit: AuditLog, clock: Clock, other: Event = OTHER_REFUSED, durable: bool = True) -> None:
        self._audit = audit
        self._clock = clock
        self._other = other
        self._durable = durable
        self._minute = 0
        self._lines = 0
        self.folded: Counter[Event] = Counter()

    def note(self, event: Event, kind: Event | None = None) -> bool:
        """True if the event got a line of its own. `kind` is the line that counts it otherwise."""
        self.turn()
        if self._lines < LINES_PER_MINUTE:
            self._lines += 1
            self._audit.append(event, durable=self._durable)
            return True
        # The sender chooses target, detail and source: only the principal and the action are few.
        kind = kind or replace(event, target="", detail="folded", source="")
        if kind not in self.folded and len(self.folded) >= KINDS_MAX:
            kind = self._other
        self.folded[kind] += 1
        return False

    def turn(self) -> None:
        """Write the counts of the last minute once that minute is over."""
        minute = int(self._clock.monotonic_s() // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
            self.fold()

    def fold(self) -> None:
        """Write the counts now; also when the listener ends."""
        folded, self.folded = self.folded, Counter()
        for event, count in sorted(folded.items(), key=lambda found: found[0].source):
            self._audit.append(replace(event, count=count), durable=False)


def denials(audit: AuditLog, clock: Clock) -> AuditFolding:
    """For the local interface: its callers must not be able to make the disk work, so no line is durable."""
    return AuditFolding(audit, clock, OTHER_DENIED, durable=False)


def note_denial(folding: AuditFolding, who: str, what: str, source: str, trouble: HoldfastError) -> None:
    detail = f"{trouble.code}: {trouble.message}"[:300]
    event = Event(who, what[:200], LOCAL_API, "denied", detail, source)
    folding.note(event, Event("anonymous", "ask", LOCAL_API, "denied", "folded", source))
