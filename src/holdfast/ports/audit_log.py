"""An append-only, hash-chained log. A writer can only append; nothing is changed or removed."""

from typing import Protocol

from holdfast.model.audit import AuditEntry, AuditHead, Event


class AuditLog(Protocol):
    def append(self, event: Event, durable: bool = True) -> AuditEntry:
        """`durable`: on the disk when it returns. Safe from several threads."""
        ...

    def head(self) -> AuditHead: ...

    def lines(self, after: int = 0, limit: int = 1000) -> list[bytes]:
        """The exact bytes of entries after that number, oldest first."""
        ...

    def newest(self, limit: int) -> list[bytes]: ...

    def verify(self) -> AuditHead:
        """Read everything, check the chain and the separately stored head; raises Corrupt at the first break."""
        ...

    def close(self) -> None: ...
