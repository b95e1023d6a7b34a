"""Nonces in a SQLite file: admitted only after they are on the disk; refused in doubt.

One thread writes, and all waiting requests share one flush. The same thread deletes expired nonces in small batches,
so that no request waits for a large clean-up.
"""

from __future__ import annotations

import os
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import apsw

from holdfast.adapters.sqlite.folder import sync_folder
from holdfast.adapters.sqlite.group_commit import GroupCommit, Ticket
from holdfast.adapters.sqlite.trouble import ends_writing, trouble
from holdfast.errors import Corrupt, Failed, HoldfastError, TryLater

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from holdfast.ports.clock import Clock

APPLICATION_ID = 0x48464E43  # "HFNC"
FORMAT = 1
FORGET_EVERY_S = 0.2  # small batches: rows are ordered by hash, so each deleted row dirties another page
FORGET_ROWS = 100  # at most, with each group
CHECKPOINT_PAGES = 1000
_LOCK_WAIT_MS = 2000
_NAME_BYTES = 16  # of a sha256: a collision is infeasible, and rows stay short

_SCHEMA = """
CREATE TABLE taken (name BLOB PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX ending ON taken (until_ms);
"""


class SqliteNonces:
    def __init__(self, path: str, clock: Clock) -> None:
        """Opens or creates the file. A damaged file is refused: discarding it would allow replays."""
        self._path = os.path.abspath(path)
        self._clock = clock
        self._db = _opened(self._path)
        self._ended = ""
        self._forget_at_s = 0.0
        self._wal_pages = 0
        self._db.set_wal_hook(self._count_pages)
        self._line = GroupCommit(self._write)

    def admit(self, key: str, nonce: str, until_s: float) -> Future[bool]:
        name = sha256(f"{key}\n{nonce}".encode()).digest()[:_NAME_BYTES]
        return self._line.submit(partial(self._take, name, until_s))

    def close(self) -> None:
        self._line.close()
        self._db.close()

    # ---- the writer's thread

    def _take(self, name: bytes, until_s: float) -> bool:
        row = self._db.execute("SELECT until_ms FROM taken WHERE name = ?", (name,)).fetchone()
        if row is not None and row[0] >= self._now_ms():
            return False
        self._db.execute("INSERT OR REPLACE INTO taken VALUES (?, ?)", (name, int(until_s * 1000) + 1))
        return True

    def _write(self, group: Sequence[Ticket]) -> None:
        if self._ended:
            self._refuse(group, unusable(self._path, self._ended))
            return
        try:
            self._checkpoint_when_due()
            self._db.execute("BEGIN IMMEDIATE")
            for ticket in group:
                ticket.answer = ticket.work()
            self._forget_when_due()
            self._db.execute("COMMIT")
        except apsw.Error as error:
            why = outcome(error, self._path, self._db.system_errno)
            self._undo()
            if ends_writing(why):  # after a failed flush, a later success would prove nothing
                self._ended = str(error)
            self._refuse(group, why)
        except BaseException as error:
            self._undo()
            self._refuse(group, unusable(self._path, str(error)))
            raise

    def _refuse(self, group: Sequence[Ticket], why: HoldfastError) -> None:
        for ticket in group:  # one error per ticket: raising adds a traceback
            ticket.answer, ticket.trouble = None, type(why)(why.message, remedy=why.remedy, code=why.code)

    def _undo(self) -> None:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error as error:
            self._ended = self._ended or str(error)

    def _forget_when_due(self) -> None:
        if self._clock.monotonic_s() < self._forget_at_s:
            return
        self._db.execute(
            "DELETE FROM taken WHERE name IN (SELECT name FROM taken WHERE until_ms < ? ORDER BY until_ms LIMIT ?)",
            (self._now_ms(), FORGET_ROWS),
        )
        if self._db.changes() < FORGET_ROWS:
            self._forget_at_s = self._clock.monotonic_s() + FORGET_EVERY_S

    def _now_ms(self) -> int:
        return int(self._clock.now_s() * 1000)

    def _count_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint_when_due(self) -> None:
        """Explicit, before a group: SQLite's automatic checkpoint runs after the commit and hides its errors."""
        if self._wal_pages >= CHECKPOINT_PAGES:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._wal_pages = 0


def _opened(path: str) -> apsw.Connection:
    try:
        if not os.path.lexists(path):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    except OSError as error:
        raise unusable(path, str(error)) from error
    except apsw.Error as error:
        raise unusable(path, str(error)) from error
    try:
        db.set_busy_timeout(_LOCK_WAIT_MS)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.pragma("trusted_schema", "off")
        db.wal_autocheckpoint(0)
        _accept(path, db)
        sync_folder(os.path.dirname(path))  # SQLite does not flush the directory entries of the file and its WAL
    except OSError as error:
        raise unusable(path, str(error)) from error
    except apsw.Error as error:
        raise outcome(error, path, db.system_errno) from error
    return db


def _accept(path: str, db: apsw.Connection) -> None:
    """A file that was cut off during creation is empty and is created again; any other must be valid."""
    known = db.pragma("application_id"), db.pragma("user_version")
    if known == (0, 0) and db.execute("SELECT count(*) FROM sqlite_master").get == 0:
        db.execute(
            f"BEGIN IMMEDIATE; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}; {_SCHEMA} COMMIT"
        )
    elif known != (APPLICATION_ID, FORMAT):
        raise damaged(path, "it is not a nonce file of this release")
    elif db.pragma("quick_check") != "ok":
        raise damaged(path, "SQLite's quick_check found damaged pages")


def outcome(error: apsw.Error, path: str, system_errno: int) -> HoldfastError:
    """Translate a SQLite error; in every case the nonce was not admitted."""
    found = trouble(error, path, system_errno)
    if isinstance(found, Corrupt):
        return damaged(path, str(error))
    if isinstance(found, TryLater):
        return TryLater(f"{path} is in use by another process", remedy="run one hub per state directory; try again")
    return found if found.code == "no_space" else unusable(path, str(error))


def damaged(path: str, why: str) -> Corrupt:
    return Corrupt(
        f"{path}, which records the requests already received, is damaged: {why}",
        remedy=f"stop the hub, wait two minutes, delete {path} and start the hub again: "
        "after two minutes no recorded request can be replayed",
        code="nonces_damaged",
    )


def unusable(path: str, why: str) -> Failed:
    return Failed(
        f"cannot write {path}, which records the requests already received: {why}; the hub refuses all requests",
        remedy="check the disk, then restart the hub",
        code="nonces_failed",
    )
