"""A ledger store in memory: every commit makes a new immutable state, so readers need no lock. Not durable."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.adapters.ledger_store.single_reads import SingleReads
from holdfast.errors import HoldfastError, Invalid
from holdfast.ports.ledger_store import (
    Change,
    Compacted,
    Held,
    Lease,
    LeaseLost,
    Moved,
    Record,
    Transaction,
    check,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from holdfast.ports.clock import Clock


class _State(Struct, frozen=True):
    revision: int = 0
    records: Mapping[str, Record] = {}
    leased: Mapping[str, str] = {}  # key → name of its lease
    leases: Mapping[str, Lease] = {}
    blobs: Mapping[str, bytes] = {}
    changed: Sequence[Change] = ()  # by the operation that made this state

    def without_keys(self, gone: Iterable[str]) -> _State:
        keys = self.records.keys() & set(gone)
        if not keys:
            return self
        revision = self.revision + 1
        return replace(
            self,
            revision=revision,
            records={key: record for key, record in self.records.items() if key not in keys},
            leased={key: name for key, name in self.leased.items() if key not in keys},
            changed=(*self.changed, *(Change(key, None, revision) for key in sorted(keys))),
        )

    def without_leases(self, names: Sequence[str]) -> _State:
        ended = self.without_keys([key for key, name in self.leased.items() if name in names])
        return replace(ended, leases={name: lease for name, lease in self.leases.items() if name not in names})

    def expired(self, now_s: float) -> _State:
        over = [name for name, lease in self.leases.items() if lease.expires_s <= now_s]
        return self.without_leases(over) if over else self

    def after(self, tx: Transaction) -> _State:
        for key, expected in tx.expect.items():
            actual = self.records[key].modified if key in self.records else 0
            if actual != expected:
                raise Moved(key, expected, actual)
        if tx.lease and tx.lease not in self.leases:
            raise LeaseLost(tx.lease)
        gone = self.records.keys() & set(tx.delete)
        revision = self.revision + (1 if tx.put or gone else 0)
        records = {key: record for key, record in self.records.items() if key not in gone}
        leased = {key: name for key, name in self.leased.items() if key not in gone and key not in tx.put}
        for key, value in tx.put.items():
            created = self.records[key].created if key in self.records else revision
            records[key] = Record(key, value, created, revision)
            if tx.lease:
                leased[key] = tx.lease
        changes = [Change(key, tx.put.get(key), revision) for key in sorted([*gone, *tx.put])]
        return _State(
            revision=revision,
            records=records,
            leased=leased,
            leases=self.leases,
            blobs={name: text for name, text in {**self.blobs, **tx.blobs}.items() if name not in tx.drop_blobs},
            changed=(*self.changed, *changes),
        )


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

    def lease(self, name: str) -> Lease | None:
        return self._state.leases.get(name)


class MemoryStore(SingleReads):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = _State()
        self._history: list[Change] = []
        self._kept_after = 0
        self._token = 0
        self._turn = threading.Condition()

    @contextmanager
    def reading(self) -> Iterator[_MemoryReading]:
        seen = self._state
        # Expired keys are hidden at once; the next writer or watcher records their deletion as a revision.
        yield _MemoryReading(replace(seen.expired(self._clock.now_s()), revision=seen.revision))

    def commit(self, tx: Transaction) -> int:
        check(tx)
        with self._turn:
            self._become(self._current().after(tx))
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

    def watch(self, prefix: str, after: int, timeout_s: float) -> Sequence[Change]:
        deadline_s = time.monotonic() + timeout_s
        with self._turn:
            while True:
                self._current()
                if after < self._kept_after:
                    raise Compacted(after, self._kept_after)
                found = [c for c in self._history if c.revision > after and c.key.startswith(prefix)]
                left_s = deadline_s - time.monotonic()
                if found or left_s <= 0:
                    return found
                self._turn.wait(min(left_s, 0.1))  # a lease may expire meanwhile

    def compact(self, before: int) -> None:
        with self._turn:
            if before > self._state.revision + 1:
                raise Invalid(
                    f"revision {before} does not exist yet", remedy=f"compact up to {self._state.revision + 1}"
                )
            self._kept_after = max(self._kept_after, before - 1)
            self._history = [change for change in self._history if change.revision > self._kept_after]

    def grant(self, name: str, holder: str, ttl_s: float) -> Lease:
        with self._turn:
            state, now_s = self._current(), self._clock.now_s()
            current = state.leases.get(name)
            if current is not None and current.holder != holder:
                raise Held(current, now_s)
            self._token += 1
            lease = Lease(name, holder, self._token, ttl_s, now_s + ttl_s)
            ended = state.without_leases([name])
            self._become(replace(ended, leases={**ended.leases, name: lease}))
            return lease

    def renew(self, lease: Lease) -> Lease:
        with self._turn:
            state = self._current()
            current = state.leases.get(lease.name)
            if current is None or current.token != lease.token:
                raise LeaseLost(lease.name)
            renewed = replace(lease, expires_s=self._clock.now_s() + lease.ttl_s)
            self._become(replace(state, leases={**state.leases, lease.name: renewed}))
            return renewed

    def release(self, lease: Lease) -> None:
        with self._turn:
            state = self._current()
            current = state.leases.get(lease.name)
            if current is not None and current.token == lease.token:
                self._become(state.without_leases([lease.name]))

    def close(self) -> None:
        """Nothing to close."""

    def _current(self) -> _State:
        """The state without what has expired by now."""
        self._become(self._state.expired(self._clock.now_s()))
        return self._state

    def _become(self, state: _State) -> None:
        if state.changed:
            self._history.extend(state.changed)
            self._turn.notify_all()
        self._state = replace(state, changed=())
