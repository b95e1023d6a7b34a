"""The agent's one SQLite file: opening, checks and transactions. Does not interpret the tables.

Every commit is flushed before it returns. After a failed flush no more writes are accepted until a restart.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import apsw

from holdfast.errors import Corrupt, Failed, HoldfastError, TryLater

APPLICATION_ID = 0x48464147  # "HFAG"
FORMAT = 1
BUSY_S = 5.0
_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_FLUSHES = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE operations (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL, order_id TEXT NOT NULL,
  outcome TEXT, result BLOB, taken INTEGER NOT NULL DEFAULT 0);
CREATE INDEX operations_by_order ON operations (order_id) WHERE order_id != '';
CREATE INDEX operations_open ON operations (number) WHERE outcome IS NULL;
CREATE INDEX operations_unsent ON operations (number) WHERE result IS NOT NULL AND taken = 0;
CREATE TABLE steps (operation TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (operation, number)) WITHOUT ROWID;
CREATE TABLE uses (id TEXT PRIMARY KEY, counter INTEGER NOT NULL UNIQUE, nonce TEXT NOT NULL UNIQUE,
  expires_s INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE made (path TEXT PRIMARY KEY, operation TEXT NOT NULL, scratch INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE links (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE contents (digest TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE accepted (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
"""


class AgentFile:
    """One connection, used by one thread at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._turn = threading.RLock()
        self._ended: HoldfastError | None = None
        try:
            self._private()
            self._db = apsw.Connection(path)
        except OSError as trouble:
            raise self._words(trouble) from trouble
        except apsw.Error as trouble:
            raise self._trouble(trouble) from trouble
        try:
            self._open()
        except apsw.Error as trouble:
            said = self._trouble(trouble)  # before closing: the system errno is lost with the connection
            self._db.close()
            raise said from trouble
        except HoldfastError:
            self._db.close()
            raise

    def _private(self) -> None:
        """Created here, before SQLite does it, with mode 0600; SQLite gives -wal and -shm the same mode."""
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    def _open(self) -> None:
        db = self._db
        db.set_busy_timeout(int(BUSY_S * 1000))
        application, version = db.pragma("application_id"), db.pragma("user_version")
        if (application, version) != (0, 0) and application != APPLICATION_ID:
            raise _foreign(self.path, "it is a database of another program")
        if version > FORMAT:
            raise _foreign(self.path, f"it has format {version}, this program supports up to {FORMAT}")
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.pragma("foreign_keys", "on")
        db.pragma("trusted_schema", "off")
        if version == 0:
            with db:
                db.execute(SCHEMA)
                db.pragma("application_id", APPLICATION_ID)
                db.pragma("user_version", FORMAT)

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Atomic, and on the disk when it ends."""
        with self._turn:
            if self._ended is not None:
                raise self._ended
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except apsw.Error as trouble:
                self._undo()
                raise self._trouble(trouble) from trouble
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        with suppress(apsw.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._turn:
            try:
                return self._db.execute(sql, tuple(values)).fetchall()
            except apsw.Error as trouble:
                raise self._trouble(trouble) from trouble

    def check(self) -> list[str]:
        """The errors that SQLite's own check finds."""
        return [str(row[0]) for row in self.rows("PRAGMA quick_check(20)") if row[0] != "ok"]

    def close(self) -> None:
        with self._turn, suppress(apsw.Error):
            self._db.close()
        self._ended = TryLater(f"{self.path} is closed", remedy="open it again", code="store_closed")

    def _trouble(self, error: apsw.Error) -> HoldfastError:
        said = self._said(error)
        if isinstance(said, (Failed, Corrupt)) and said.code != "no_space":
            self._ended = said
        return said

    def _said(self, error: apsw.Error) -> HoldfastError:
        extended = getattr(error, "extendedresult", 0)
        system = self._system_errno()
        if isinstance(error, (apsw.BusyError, apsw.LockedError)):
            return TryLater(f"another process is writing {self.path}", remedy="stop the second agent", code="locked")
        if isinstance(error, apsw.FullError) or (extended not in _FLUSHES and system in _SPACE):
            return _no_space(self.path)
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)):
            return _foreign(self.path, str(error))
        if isinstance(error, apsw.ConnectionClosedError):
            return TryLater(f"{self.path} is closed", remedy="open it again", code="store_closed")
        return self._words(OSError(system, str(error)))

    def _system_errno(self) -> int:
        try:
            return self._db.system_errno
        except (AttributeError, apsw.Error):  # never opened, or closed
            return 0

    def _words(self, trouble: OSError) -> Failed:
        if trouble.errno in _SPACE:
            return _no_space(self.path)
        return Failed(
            f"cannot write {self.path} safely: {trouble.strerror}; a restart shows whether the last step was kept",
            remedy="check the disk, then restart the agent",
            code="store_failed",
        )


def _no_space(path: str) -> Failed:
    return Failed(
        f"no space is left for {path}; nothing was written, and the agent starts no step that it cannot record",
        remedy=f"free space on the file system of {path}",
        code="no_space",
    )


def _foreign(path: str, why: str) -> Corrupt:
    return Corrupt(
        f"cannot read {path}, the agent's state: {why}",
        remedy=f"restore {path} from a backup of this machine, or move it away and run `holdfast agent join TOKEN`",
        code="agent_state_damaged",
    )
