"""Fresh keys for archives: one pair for each service and generation."""

from typing import NamedTuple, Protocol


class KeyPair(NamedTuple):
    identity: str  # AGE-SECRET-KEY-1…; a secret
    recipient: str  # age1…

    def __repr__(self) -> str:
        return f"KeyPair(recipient={self.recipient!r})"


class ArchiveKeys(Protocol):
    def fresh(self) -> KeyPair: ...

    def recipient_of(self, identity: str) -> str:
        """Raises Invalid for anything that is not an identity."""
        ...
