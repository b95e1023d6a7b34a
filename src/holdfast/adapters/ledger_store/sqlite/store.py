"""A ledger store in one SQLite file. Acknowledges only durable commits; readers take no lock and write nothing."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

import apsw

from holdfast.adapters.ledger_store.single_reads import SingleReads
from holdfast.adapters.ledger_store.sqlite import ledger_file, schema
from holdfast.adapters.ledger_store.sqlite.reading import Readings, SqliteReading
from holdfast.adapters.ledger_store.sqlite.writer import SqliteWriter
from holdfast.adapters.sqlite.folder import sync_folder
from holdfast.adapters.sqlite.trouble import Locked, os_trouble, trouble
from holdfast.errors import HoldfastError
from holdfast.ports.ledger_store import Transaction, check

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from tempfile import TemporaryDirectory

COPY_S = 3.0  # how long a reader tries to copy a ledger that another process is writing


def quiet_source(path: str) -> tuple[Callable[[], apsw.Connection], TemporaryDirectory[str] | None]:
    """The ledger itself if it can be read without writing, else a private copy and the folder that holds it."""
    give_up_s = time.monotonic() + COPY_S
    while not ledger_file.can_be_read_silently(path):
        from tempfile import TemporaryDirectory

        folder = TemporaryDirectory(prefix="holdfast-ledger-")
        copy = ledger_file.copy_at_rest(path, folder.name)
        if copy is not None:
            return partial(schema.connect, copy), folder
        folder.cleanup()
        if time.monotonic() > give_up_s:
            raise Locked(f"{path} keeps changing while it is copied for reading", remedy="try again")
        time.sleep(0.005)
    return partial(schema.connect_silently, path), None


class SqliteReader(SingleReads):
    """Read-only access. The next reading sees what another process has committed."""

    def __init__(self, readings: Readings, copy: TemporaryDirectory[str] | None = None) -> None:
        self._readings = readings
        self._copy = copy

    def reading(self) -> AbstractContextManager[SqliteReading]:
        return self._readings.reading()

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


class SqliteStore(SqliteReader):
    def __init__(self, path: str, db: apsw.Connection) -> None:
        super().__init__(Readings(path, partial(schema.connect_reader, path)))
        self._writer = SqliteWriter(path, db)
        self._writing = self._writer.writing

    @classmethod
    def open(cls, path: str, create: bool) -> SqliteStore:
        path = os.path.abspath(path)
        if create and not os.path.lexists(path):
            schema.create(path)
        ledger_file.examine(path)
        try:
            db = schema.connect(path)
            ledger_file.look_inside(path, db)
            sync_folder(os.path.dirname(path))  # -wal may be new; SQLite ignores errors of this flush
        except apsw.Error as error:
            raise trouble(error, path) from error
        except OSError as error:
            raise os_trouble(error, path) from error
        return cls(path, db)

    @staticmethod
    def open_read_only(path: str) -> SqliteReader:
        """Read without writing a byte, whether a writer is running, was killed, or never existed (I-09).

        SQLite can do this if -wal and -shm exist: beside a running writer it reads the shared index, after a killed
        one it builds a private index in memory. Our writers always leave both files. If they are missing (a restored
        backup, another tool) or unusable, a private copy in TMPDIR is read instead.
        """
        path = os.path.abspath(path)
        ledger_file.examine(path)
        connect, folder = quiet_source(path)
        reader = SqliteReader(Readings(path, connect), folder)
        try:
            with reader.reading() as look:
                ledger_file.accept_format(path, look.format())
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

    def close(self) -> None:
        super().close()
        self._writer.close()

    def leave(self) -> None:
        """Close without a flush: commits stay in the WAL, which is emptied only when it is long."""
        super().close()
        self._writer.leave()
