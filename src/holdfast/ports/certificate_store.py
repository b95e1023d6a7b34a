"""The store for the certificates of this node's routes: chain and key together, readable by root only."""

from typing import Protocol

from msgspec import Struct


class StoredCertificate(Struct, frozen=True):
    chain: bytes  # PEM, leaf first
    private: bytes  # PEM

    def __repr__(self) -> str:
        return "Kept(…)"


class CertificateStore(Protocol):
    def names(self) -> tuple[str, ...]: ...

    def kept(self, name: str) -> StoredCertificate | None:
        """As stored, not verified; None also for an entry that a crash left incomplete."""
        ...

    def keep(self, name: str, kept: StoredCertificate) -> None:
        """Both files or none; durable on return."""
        ...

    def drop(self, name: str) -> None: ...
