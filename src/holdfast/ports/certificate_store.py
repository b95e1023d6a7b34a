"""Where the certificates of this node's routes lie between restarts: chain and key together, readable by root alone."""

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
        """As it lies there, unjudged; None also for what was cut in half by a crash."""
        ...

    def keep(self, name: str, kept: StoredCertificate) -> None:
        """Both or nothing, on the disk before it returns."""
        ...

    def drop(self, name: str) -> None: ...
