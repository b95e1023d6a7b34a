"""Copy the audit log to the hub: the lines that it has not seen yet, a few with each check-in."""

from holdfast.agent.link.audit_folding import AuditFolding
from holdfast.ports.audit_log import AuditLog

LINES = 64
BYTES = 64 * 1024


class AuditCopy:
    def __init__(self, audit: AuditLog, folding: AuditFolding) -> None:
        self._audit = audit
        self._folding = folding
        self._seen: int | None = None  # by the hub; None: it did not say yet

    def seen(self, number: int | None) -> None:
        self._seen = number

    def turn(self) -> None:
        """Write the counts of refused requests, once their minute is over."""
        self._folding.turn()

    def lines(self) -> tuple[bytes, ...]:
        if self._seen is None or self._audit.head().number <= self._seen:
            return ()
        found: list[bytes] = []
        size_bytes = 0
        for line in self._audit.lines(self._seen, LINES):
            size_bytes += len(line)
            if size_bytes > BYTES and found:
                break
            found.append(line)
        return tuple(found)
