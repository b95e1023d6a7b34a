"""A ledger store in memory: every commit makes a new immutable state, so readers need no lock. Not durable."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.adapters.ledger_store.single_reads import SingleReads
from holdfast.errors import HoldfastError
from holdfast.ports.ledger_store import Moved, Record, Transaction, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future


class _State(Struct, frozen=True):
    revision: int = 0
    records: Mapping[str, Record] = {}
    blobs: Mapping[str, bytes] = {}

    def after(self, tx: Transaction) -> _State:
        for key, expected in tx.expect.items():
            actual = self.records[key].modified if key in self.records else 0
            if actual != expected:
                raise Moved(key, expected, actual)
        gone = self.records.keys() & set(tx.delete)
        revision = self.revision + (1 if tx.put or gone else 0)
        records = {key: record for key, record in self.records.items() if key not in gone}
        for key, value in tx.put.items():
            created = self.records[key].created if key in self.records else revision
            records[key] = Record(key, value, created, revision)
        blobs = {name: text for name, text in {**self.blobs, **tx.blobs}.items() if name not in tx.drop_blobs}
        return _State(revision, records, blobs)


class _MemoryReading:
    def __init__(self, state: _State) -> None:
        self._state = state

    def revision(self) -> int:
        return self._state.revision

    def get(self, key: str) -> Record | None:
        return self._state.records.get(key)

    def scan(self, prefix: str) -> Sequence[Record]:
        return [record for key, record in sorted(self._state.records.items()) if key.startswith(prefix)]

    def blob(self, digest: str) -> bytes | None:
        return self._state.blobs.get(digest)

    def has_blobs(self, digests: Iterable[str]) -> set[str]:
        return self._state.blobs.keys() & set(digests)

    def blob_digests(self) -> Iterator[str]:
        return iter(sorted(self._state.blobs))

    def read_blobs(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        return ((digest, self._state.blobs.get(digest)) for digest in digests)


class MemoryStore(SingleReads):
    def __init__(self) -> None:
        self._state = _State()
        self._turn = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[_MemoryReading]:
        yield _MemoryReading(self._state)

    def commit(self, tx: Transaction) -> int:
        check(tx)
        with self._turn:
            self._state = self._state.after(tx)
            return self._state.revision

    def submit(self, tx: Transaction) -> Future[int]:
        from concurrent.futures import Future

        check(tx)
        future: Future[int] = Future()
        try:
            future.set_result(self.commit(tx))
        except HoldfastError as trouble:
            future.set_exception(trouble)
        return future

    def close(self) -> None:
        """Nothing to close."""
