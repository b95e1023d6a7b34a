"""The statements of one group of writes inside a SQLite transaction, which the writer begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.errors import Invalid
from holdfast.ports.ledger_store import Held, Lease, LeaseLost, Moved, Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from holdfast.ports.clock import Clock

_FACTS = "SELECT coalesce((SELECT max(revision) FROM changes), 0), (SELECT min(expires_s) FROM leases)"
_PUT = """
INSERT INTO live (key, created, modified, lease) VALUES (?1, ?2, ?2, ?3)
ON CONFLICT (key) DO UPDATE SET modified = excluded.modified, lease = excluded.lease
"""
# Storing a blob again repairs a copy that the disk corrupted.
_STORE = """
INSERT INTO blobs (digest, content) VALUES (?, ?)
ON CONFLICT (digest) DO UPDATE SET content = excluded.content WHERE content IS NOT excluded.content
"""
# The rows of the newest revision always stay: the store's revision number is read from them.
_FORGET = """
DELETE FROM changes WHERE (revision, key) IN (
    SELECT revision, key FROM changes AS old WHERE revision <= ?1 AND revision < ?2
    AND NOT EXISTS (SELECT 1 FROM live WHERE live.key = old.key AND live.modified = old.revision)
    LIMIT ?3)
"""
FORGET_AT_ONCE = 2000


class SqliteWriting:
    def __init__(self, db: apsw.Connection, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._now_s = 0.0
        self._revision = 0

    def begin(self) -> None:
        """Read the current revision, since another process may have written, and end expired leases."""
        self._now_s = self._clock.now_s()
        self._revision, soonest_s = self._row(_FACTS)
        if soonest_s is not None and soonest_s <= self._now_s:
            over = [row[0] for row in self._rows("SELECT name FROM leases WHERE expires_s <= ?", self._now_s)]
            self._end_tenures(over)

    def perform(self, tx: Transaction) -> int:
        for key, expected in tx.expect.items():
            actual = self._value("SELECT modified FROM live WHERE key = ?", key) or 0
            if actual != expected:
                raise Moved(key, expected, actual)
        if tx.lease and self._lease(tx.lease) is None:
            raise LeaseLost(tx.lease)
        if tx.blobs:
            self._db.executemany(_STORE, tx.blobs.items())
        if tx.drop_blobs:
            self._db.executemany("DELETE FROM blobs WHERE digest = ?", ((digest,) for digest in tx.drop_blobs))
        return self._change(tx)

    def grant(self, name: str, holder: str, ttl_s: float) -> Lease:
        current = self._lease(name)
        if current is not None and current.holder != holder:
            raise Held(current, self._now_s)
        self._end_tenures([name])
        token = self._value("UPDATE counters SET value = value + 1 WHERE name = 'token' RETURNING value")
        lease = Lease(name, holder, token, ttl_s, self._now_s + ttl_s)
        self._db.execute(
            "INSERT INTO leases (name, holder, token, ttl_s, expires_s) VALUES (?, ?, ?, ?, ?)",
            (name, holder, token, ttl_s, lease.expires_s),
        )
        return lease

    def renew(self, lease: Lease) -> Lease:
        if not self._is_current(lease):
            raise LeaseLost(lease.name)
        renewed = replace(lease, expires_s=self._now_s + lease.ttl_s)
        self._db.execute("UPDATE leases SET expires_s = ? WHERE name = ?", (renewed.expires_s, lease.name))
        return renewed

    def release(self, lease: Lease) -> None:
        if self._is_current(lease):
            self._end_tenures([lease.name])

    def forget(self, before: int) -> bool:
        """Delete one batch of the history; true if more may be left."""
        if before > self._revision + 1:
            raise Invalid(f"revision {before} does not exist yet", remedy=f"compact up to {self._revision + 1}")
        self._db.execute("UPDATE counters SET value = max(value, ?) WHERE name = 'kept_after'", (before - 1,))
        self._db.execute(_FORGET, (before - 1, self._revision, FORGET_AT_ONCE))
        return self._db.changes() == FORGET_AT_ONCE

    def _change(self, tx: Transaction) -> int:
        gone = [key for key in tx.delete if self._rows("DELETE FROM live WHERE key = ? RETURNING key", key)]
        if not tx.put and not gone:
            return self._revision
        revision = self._revision + 1
        self._record_deletions(gone, revision)
        for key, value in tx.put.items():
            self._db.execute("INSERT INTO changes (revision, key, value) VALUES (?, ?, ?)", (revision, key, value))
            self._db.execute(_PUT, (key, revision, tx.lease))
        self._revision = revision  # last: a savepoint that is rolled back must not use up a revision
        return revision

    def _end_tenures(self, names: Sequence[str]) -> None:
        gone: list[str] = []
        for name in names:
            rows = self._rows("DELETE FROM live WHERE lease = ? AND lease <> '' RETURNING key", name)
            gone.extend(row[0] for row in rows)
            self._db.execute("DELETE FROM leases WHERE name = ?", (name,))
        if gone:
            self._record_deletions(gone, self._revision + 1)
            self._revision += 1

    def _record_deletions(self, keys: Sequence[str], revision: int) -> None:
        for key in keys:
            self._db.execute("INSERT INTO changes (revision, key, value) VALUES (?, ?, NULL)", (revision, key))

    def _is_current(self, lease: Lease) -> bool:
        current = self._lease(lease.name)
        return current is not None and current.token == lease.token

    def _lease(self, name: str) -> Lease | None:
        rows = self._rows("SELECT * FROM leases WHERE name = ?", name)
        return Lease(*rows[0]) if rows else None

    def _rows(self, question: str, *values: str | float) -> list[Any]:
        return self._db.execute(question, values).fetchall()

    def _row(self, question: str) -> Any:
        return self._rows(question)[0]

    def _value(self, question: str, *values: str) -> Any:
        rows = self._rows(question, *values)
        return rows[0][0] if rows else None
