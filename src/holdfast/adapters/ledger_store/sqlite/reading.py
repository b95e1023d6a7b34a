"""Readings of the SQLite ledger: each is one read transaction on its own connection. Never writes."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import apsw

from holdfast.adapters.sqlite.trouble import trouble
from holdfast.ports.ledger_store import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_LIVE = """
SELECT live.key, changes.value, live.created, live.modified FROM live
CROSS JOIN changes ON changes.revision = live.modified AND changes.key = live.key
"""
_GET = f"{_LIVE} WHERE live.key = ?"
_SCAN = f"{_LIVE} WHERE live.key >= ? AND live.key < ? ORDER BY live.key"
_ONE_BLOB_EACH = "SELECT ?1, (SELECT content FROM blobs WHERE digest = ?1)"
_REVISION = "SELECT coalesce((SELECT max(revision) FROM changes), 0)"

# Keys are printable and this character is not, so it sorts after every key with the prefix.
_END = "\U0010ffff"

_WRITER_START_S = 2.0


class SqliteReading:
    def __init__(self, db: apsw.Connection, path: str, revision: int) -> None:
        self._db = db
        self._path = path
        self._revision = revision

    def revision(self) -> int:
        return self._revision

    def get(self, key: str) -> Record | None:
        rows = self._ask(_GET, key)
        return Record(*rows[0]) if rows else None

    def scan(self, prefix: str) -> Sequence[Record]:
        return [Record(*row) for row in self._ask(_SCAN, prefix, prefix + _END)]

    def blob(self, digest: str) -> bytes | None:
        rows = self._ask("SELECT content FROM blobs WHERE digest = ?", digest)
        return rows[0][0] if rows else None

    def has_blobs(self, digests: Iterable[str]) -> set[str]:
        return {row[0] for row in self._each("SELECT digest FROM blobs WHERE digest = ?", digests)}

    def blob_digests(self) -> Iterator[str]:
        return (row[0] for row in self._each("SELECT digest FROM blobs WHERE digest >= ? ORDER BY digest", [""]))

    def read_blobs(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        return self._each(_ONE_BLOB_EACH, digests)

    def format(self) -> int:
        return cast("int", self._ask("PRAGMA user_version")[0][0])

    def _ask(self, question: str, *values: object) -> list[Any]:
        try:
            return self._db.execute(question, values).fetchall()
        except apsw.Error as error:
            raise trouble(error, self._path, self._db.system_errno) from error

    def _each(self, question: str, values: Iterable[str]) -> Iterator[Any]:
        try:
            yield from self._db.executemany(question, ((value,) for value in values))
        except apsw.Error as error:
            raise trouble(error, self._path, self._db.system_errno) from error


class Readings:
    """Opens readings; reuses the connections of finished ones."""

    def __init__(self, path: str, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._idle: list[apsw.Connection] = []
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[SqliteReading]:
        db = None
        try:
            db = self._borrow()
            look = SqliteReading(db, self._path, self._begin(db))
        except apsw.Error as error:
            raise trouble(error, self._path, db.system_errno if db else 0) from error
        try:
            yield look
        finally:
            self._give_back(db)

    def rest(self) -> None:
        """Close all idle connections; the next reading connects again."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        self._closed = True
        self.rest()

    def _borrow(self) -> apsw.Connection:
        if self._closed:
            raise trouble(apsw.ConnectionClosedError(), self._path)
        try:
            return self._idle.pop()  # atomic, so readers need no lock
        except IndexError:
            return self._connect()

    def _give_back(self, db: apsw.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")
        self._idle.append(db)
        if self._closed:
            self.close()

    def _begin(self, db: apsw.Connection) -> int:
        """Fix the snapshot with a first query. A silent reader may have to wait until a starting writer is ready."""
        give_up_s = time.monotonic() + _WRITER_START_S
        while True:
            try:
                db.execute("BEGIN")
                return cast("int", db.execute(_REVISION).fetchall()[0][0])
            except apsw.ReadOnlyError:
                if time.monotonic() > give_up_s:
                    raise
                db.execute("ROLLBACK")
                time.sleep(0.002)
