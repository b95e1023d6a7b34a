"""Route certificates in memory, for tests and simulation. Can simulate a full disk."""

from holdfast.errors import HoldfastError
from holdfast.ports.certificate_store import StoredCertificate


class MemoryShelf:
    def __init__(self) -> None:
        self.content: dict[str, StoredCertificate] = {}
        self.trouble: HoldfastError | None = None  # while set, every keep() raises it

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.content))

    def kept(self, name: str) -> StoredCertificate | None:
        return self.content.get(name)

    def keep(self, name: str, kept: StoredCertificate) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.content[name] = kept

    def drop(self, name: str) -> None:
        self.content.pop(name, None)
