"""An audit log in memory, for tests. It lasts as long as the object."""

import threading

from holdfast.adapters.audit_log import line as lines_of
from holdfast.errors import TryLater
from holdfast.model import audit
from holdfast.model.audit import NO_ENTRIES, AuditEntry, AuditHead, Event
from holdfast.ports.clock import Clock


class MemoryAuditLog:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: list[bytes] = []
        self._head = NO_ENTRIES
        self._turn = threading.Lock()
        self._closed = False

    def append(self, event: Event, durable: bool = True) -> AuditEntry:
        with self._turn:
            if self._closed:
                raise TryLater("the audit log is closed", remedy="open it again", code="store_closed")
            made = lines_of.after(self._head, event, int(self._clock.now_s() * 1000))
            self._lines.append(made.line)
            self._head = made.head
            return made.entry

    def head(self) -> AuditHead:
        return self._head

    def lines(self, after: int = 0, limit: int = 1000) -> list[bytes]:
        return self._lines[max(after, 0) : max(after, 0) + max(limit, 0)]

    def newest(self, limit: int) -> list[bytes]:
        return self._lines[-limit:] if limit > 0 else []

    def verify(self) -> AuditHead:
        return audit.verify(list(self._lines), self._head)

    def close(self) -> None:
        self._closed = True
