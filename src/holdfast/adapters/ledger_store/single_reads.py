"""Single reads of a store: each opens its own reading. Shared by all stores; holds no state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.ports.ledger_store import Reading, Record


class SingleReads(ABC):
    @abstractmethod
    def reading(self) -> AbstractContextManager[Reading]: ...

    def revision(self) -> int:
        with self.reading() as look:
            return look.revision()

    def get(self, key: str) -> Record | None:
        with self.reading() as look:
            return look.get(key)

    def scan(self, prefix: str) -> Sequence[Record]:
        with self.reading() as look:
            return look.scan(prefix)

    def blob(self, digest: str) -> bytes | None:
        with self.reading() as look:
            return look.blob(digest)

    def has_blobs(self, digests: Iterable[str]) -> set[str]:
        with self.reading() as look:
            return look.has_blobs(digests)

    def blob_digests(self) -> Iterator[str]:
        with self.reading() as look:
            yield from look.blob_digests()

    def read_blobs(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        with self.reading() as look:
            yield from look.read_blobs(digests)
