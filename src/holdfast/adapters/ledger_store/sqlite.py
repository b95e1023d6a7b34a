"""A ledger store in one SQLite file. Acknowledges only durable commits; readers take no lock and write nothing."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import apsw

from holdfast.adapters.ledger_store import sqlite_file, sqlite_schema
from holdfast.adapters.ledger_store.single_reads import SingleReads
from holdfast.adapters.ledger_store.sqlite_reading import Readings, SqliteReading
from holdfast.adapters.ledger_store.sqlite_trouble import Locked, os_trouble, trouble
from holdfast.adapters.ledger_store.sqlite_writer import SqliteWriter
from holdfast.errors import HoldfastError
from holdfast.ports.ledger_store import Change, Lease, Transaction, check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from tempfile import TemporaryDirectory

    from holdfast.ports.clock import Clock

POLL_S = 0.1  # delay until a watcher notices another process's commit or an expired lease
COPY_S = 3.0  # how long a reader tries to copy a ledger that another process is writing

_LONG_AGO_S = float("-inf")  # a reader without a clock treats no lease as expired


def _quiet_source(path: str) -> tuple[Callable[[], apsw.Connection], TemporaryDirectory[str] | None]:
    """The ledger itself if it can be read without writing, else a private copy and the folder that holds it."""
    give_up_s = time.monotonic() + COPY_S
    while not sqlite_file.can_be_read_silently(path):
        from tempfile import TemporaryDirectory

        folder = TemporaryDirectory(prefix="holdfast-ledger-")
        copy = sqlite_file.copy_at_rest(path, folder.name)
        if copy is not None:
            return partial(sqlite_schema.connect, copy), folder
        folder.cleanup()
        if time.monotonic() > give_up_s:
            raise Locked(f"{path} keeps changing while it is copied for reading", remedy="try again")
        time.sleep(0.005)
    return partial(sqlite_schema.connect_silently, path), None


class SqliteReader(SingleReads):
    """Read-only access. The next reading sees what another process has committed."""

    def __init__(self, readings: Readings, copy: TemporaryDirectory[str] | None = None) -> None:
        self._readings = readings
        self._copy = copy
        self._news = threading.Condition()
        self._news_count = 0

    def reading(self) -> AbstractContextManager[SqliteReading]:
        return self._readings.reading()

    def watch(self, prefix: str, after: int, timeout_s: float) -> Sequence[Change]:
        deadline_s = time.monotonic() + timeout_s
        while True:
            count = self._news_count
            self._end_expired()
            with self.reading() as look:
                found, after = look.changes(prefix, after), max(after, look.revision())
            left_s = deadline_s - time.monotonic()
            if found or left_s <= 0:
                return found
            with self._news:
                if count == self._news_count:
                    self._news.wait(min(left_s, POLL_S))

    def rest(self) -> None:
        """Keep no connection open between readings.

        A silent connection makes the shared index read-only for its whole process, so a writer of the same process can
        only be opened while no silent connection exists; after that, silent connections may be opened again.
        """
        self._readings.rest()

    def close(self) -> None:
        self._readings.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _end_expired(self) -> None:
        """Only writers record expired leases."""


class SqliteStore(SqliteReader):
    def __init__(self, path: str, db: apsw.Connection, clock: Clock) -> None:
        super().__init__(Readings(path, partial(sqlite_schema.connect_reader, path), clock.now_s))
        self._writer = SqliteWriter(path, db, clock, self._tell_watchers)
        self._writing = self._writer.writing

    @classmethod
    def open(cls, path: str, clock: Clock, create: bool) -> SqliteStore:
        path = os.path.abspath(path)
        if create and not os.path.lexists(path):
            sqlite_schema.create(path)
        sqlite_file.examine(path)
        try:
            db = sqlite_schema.connect(path)
            sqlite_file.look_inside(path, db)
            sqlite_schema.sync_folder(os.path.dirname(path))  # -wal may be new; SQLite ignores errors of this flush
        except apsw.Error as error:
            raise trouble(error, path) from error
        except OSError as error:
            raise os_trouble(error, path) from error
        return cls(path, db, clock)

    @staticmethod
    def open_read_only(path: str, clock: Clock | None = None) -> SqliteReader:
        """Read without writing a byte, whether a writer is running, was killed, or never existed (I-09).

        SQLite can do this if -wal and -shm exist: beside a running writer it reads the shared index, after a killed
        one it builds a private index in memory. Our writers always leave both files. If they are missing (a restored
        backup, another tool) or unusable, a private copy in TMPDIR is read instead.
        Without a clock, keys of expired leases are shown until a writer has deleted them.
        """
        path = os.path.abspath(path)
        sqlite_file.examine(path)
        now_s = (lambda: _LONG_AGO_S) if clock is None else clock.now_s
        connect, folder = _quiet_source(path)
        reader = SqliteReader(Readings(path, connect, now_s), folder)
        try:
            with reader.reading() as look:
                sqlite_file.accept_format(path, look.format())
        except HoldfastError:
            reader.close()
            raise
        return reader

    def commit(self, tx: Transaction) -> int:
        check(tx)
        return self._writer.run(partial(self._writing.perform, tx))

    def submit(self, tx: Transaction) -> Future[int]:
        check(tx)
        return self._writer.submit(partial(self._writing.perform, tx))

    def compact(self, before: int) -> None:
        while self._writer.run(partial(self._writing.forget, before)):
            pass  # in batches, so that writers get their turn in between

    def grant(self, name: str, holder: str, ttl_s: float) -> Lease:
        return self._writer.run(partial(self._writing.grant, name, holder, ttl_s))

    def renew(self, lease: Lease) -> Lease:
        return self._writer.run(partial(self._writing.renew, lease))

    def release(self, lease: Lease) -> None:
        self._writer.run(partial(self._writing.release, lease))

    def close(self) -> None:
        super().close()
        self._writer.close()

    def leave(self) -> None:
        """Close without a flush: commits stay in the WAL, which is emptied only when it is long."""
        super().close()
        self._writer.leave()

    def _end_expired(self) -> None:
        with self._readings.reading() as look:
            over = look.lease_is_over()
        if over and not self._writer.ended:
            self._writer.run(lambda: None)  # every write first ends expired leases

    def _tell_watchers(self) -> None:
        with self._news:
            self._news_count += 1
            self._news.notify_all()
