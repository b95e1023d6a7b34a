"""A shelf that is nowhere, for tests and simulation. Can be made to refuse, as a full disk does."""

from holdfast.errors import HoldfastError
from holdfast.ports.certificate_store import StoredCertificate


class MemoryShelf:
    def __init__(self) -> None:
        self.content: dict[str, StoredCertificate] = {}
        self.trouble: HoldfastError | None = None  # raised by every keep() while it is set

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
