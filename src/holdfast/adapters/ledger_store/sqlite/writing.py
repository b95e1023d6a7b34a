"""The statements of one group of writes inside a SQLite transaction, which the writer begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.ports.ledger_store import Moved, Transaction

if TYPE_CHECKING:
    import apsw

_REVISION = "SELECT coalesce((SELECT max(revision) FROM changes), 0)"
_PUT = """
INSERT INTO live (key, created, modified, lease) VALUES (?1, ?2, ?2, '')
ON CONFLICT (key) DO UPDATE SET modified = excluded.modified
"""
# Storing a blob again repairs a copy that the disk corrupted.
_STORE = """
INSERT INTO blobs (digest, content) VALUES (?, ?)
ON CONFLICT (digest) DO UPDATE SET content = excluded.content WHERE content IS NOT excluded.content
"""


class SqliteWriting:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._revision = 0

    def begin(self) -> None:
        """Read the current revision, since another process may have written."""
        self._revision = self._value(_REVISION)

    def perform(self, tx: Transaction) -> int:
        for key, expected in tx.expect.items():
            actual = self._value("SELECT modified FROM live WHERE key = ?", key) or 0
            if actual != expected:
                raise Moved(key, expected, actual)
        if tx.blobs:
            self._db.executemany(_STORE, tx.blobs.items())
        if tx.drop_blobs:
            self._db.executemany("DELETE FROM blobs WHERE digest = ?", ((digest,) for digest in tx.drop_blobs))
        return self._change(tx)

    def _change(self, tx: Transaction) -> int:
        gone = [key for key in tx.delete if self._value("DELETE FROM live WHERE key = ? RETURNING key", key)]
        if not tx.put and not gone:
            return self._revision
        revision = self._revision + 1
        changes: dict[str, bytes | None] = {**dict.fromkeys(gone), **tx.put}
        for key, value in changes.items():
            self._db.execute("INSERT INTO changes (revision, key, value) VALUES (?, ?, ?)", (revision, key, value))
        for key in tx.put:
            self._db.execute(_PUT, (key, revision))
        self._revision = revision  # last: a savepoint that is rolled back must not use up a revision
        return revision

    def _value(self, question: str, *values: str) -> Any:
        rows = self._db.execute(question, values).fetchall()
        return rows[0][0] if rows else None
