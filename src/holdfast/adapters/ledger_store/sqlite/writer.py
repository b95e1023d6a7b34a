"""The only writer of a SQLite ledger: groups, commits, checkpoints. Stops writing after a failed flush (R06)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import apsw

from holdfast.adapters.ledger_store.sqlite.writing import SqliteWriting
from holdfast.adapters.sqlite.group_commit import GroupCommit, Ticket
from holdfast.adapters.sqlite.trouble import ends_writing, failed, trouble
from holdfast.errors import HoldfastError, TryLater

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

CHECKPOINT_PAGES = 1000

T = TypeVar("T")


class SqliteWriter:
    def __init__(self, path: str, db: apsw.Connection) -> None:
        self.writing = SqliteWriting(db)
        self.ended = ""  # why writing has ended; "" while it has not
        self._path = path
        self._db = db
        self._line = GroupCommit(self._write)
        self._wal_pages = 0
        self._checkpointed_pages = 0
        db.set_wal_hook(self._count_pages)

    def run(self, work: Callable[[], T]) -> T:
        return self._line.run(work)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        return self._line.submit(work)

    def close(self) -> None:
        self._end(tidy=True)

    def leave(self) -> None:
        """Flush nothing, unless the WAL has grown too long for later readers."""
        self._end(tidy=self._wal_pages >= CHECKPOINT_PAGES)

    def _end(self, tidy: bool) -> None:
        """If another process holds a lock, the checkpoint is left to a later close."""
        self._line.close()
        if tidy and not self.ended:
            self._db.set_busy_timeout(0)
            self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._db.close()
        self.ended = self.ended or "it is closed"

    def _write(self, group: Sequence[Ticket]) -> None:
        self._checkpoint_when_due()
        if self.ended:
            for ticket in group:
                ticket.trouble = failed(self._path, self.ended)
            return
        try:
            self._commit(group)
        except apsw.Error as error:
            self._take_back(group, error)
        except BaseException:
            self._undo()
            for ticket in group:
                ticket.trouble = TryLater(
                    "the commit was interrupted", remedy="check whether it happened; if not, repeat it"
                )
            raise

    def _commit(self, group: Sequence[Ticket]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self.writing.begin()
        attempt = self._attempt if len(group) == 1 else self._attempt_beside_others
        accepted = sum(map(attempt, group))
        self._db.execute("COMMIT" if accepted else "ROLLBACK")

    def _attempt(self, ticket: Ticket) -> bool:
        try:
            ticket.answer = ticket.work()
        except HoldfastError as refusal:
            ticket.trouble = refusal
            return False
        return True

    def _attempt_beside_others(self, ticket: Ticket) -> bool:
        self._db.execute("SAVEPOINT one")
        accepted = self._attempt(ticket)
        if not accepted:
            self._db.execute("ROLLBACK TO one")
        self._db.execute("RELEASE one")
        return accepted

    def _take_back(self, group: Sequence[Ticket], error: apsw.Error) -> None:
        system_errno = self._db.system_errno
        outcome = trouble(error, self._path, system_errno)
        if ends_writing(outcome):
            self.ended = str(error)
        self._undo()
        for ticket in group:
            ticket.trouble = trouble(error, self._path, system_errno)  # one per ticket: raising adds a traceback
        if len(group) > 1 and outcome.code == "no_space":
            for ticket in group:  # only one of them may be too large for the disk; the others are tried alone
                ticket.trouble = None
                self._write([ticket])

    def _undo(self) -> None:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error as error:
            self.ended = self.ended or str(error)

    def _count_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint_when_due(self) -> None:
        """Before a commit, not after it: a commit must not report success after a failed flush."""
        if self._wal_pages < self._checkpointed_pages:
            self._checkpointed_pages = 0  # the WAL was restarted
        if self._wal_pages - self._checkpointed_pages >= CHECKPOINT_PAGES and not self.ended:
            self._checkpointed_pages = self._wal_pages
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _checkpoint(self, mode: int) -> None:
        """Run here because SQLite would ignore its errors. A busy or full disk delays it; the WAL keeps everything."""
        try:
            self._db.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            if ends_writing(trouble(error, self._path, self._db.system_errno)):
                self.ended = str(error)
