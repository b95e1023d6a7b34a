"""Checks of the ledger file before SQLite opens it. Only reads."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shlex import quote

import apsw

from holdfast.adapters.ledger_store.sqlite.schema import APPLICATION_ID, FORMAT
from holdfast.adapters.sqlite.trouble import RESTORE, unreadable
from holdfast.errors import Corrupt, Invalid, NotPermitted

_HEADER_BYTES = 100
_WAL_HEADER_BYTES = 32
_WAL_MAGICS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_FRAME_HEADER_BYTES = 24
_COPY_BYTES = 1 << 20


def examine(path: str) -> None:
    """Raise if this file cannot be opened as a ledger. Does not check the rows inside."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        raise Invalid(
            f"there is no ledger at {path}",
            remedy="check the path, or create a ledger: holdfast hub init --trust FINGERPRINT --state-dir DIR",
            code="ledger_missing",
        ) from None
    except PermissionError as error:
        raise _denied(path) from error
    except OSError as error:
        raise unreadable(path, str(error)) from error
    if not stat.S_ISREG(kind):
        raise unreadable(path, "it is not a regular file")
    if not os.access(path, os.R_OK, effective_ids=True):
        raise _denied(path)
    with _raw(path) as file:
        head, size = file.xRead(_HEADER_BYTES, 0), file.xFileSize()
        magic = b"SQLite format 3\0"
        if head[:16] != magic[: len(head)]:
            raise unreadable(path, "it is not a database")
        if len(head) < _HEADER_BYTES:
            raise _truncated(path, size, "its header")
        application, version = int.from_bytes(head[68:72], "big"), int.from_bytes(head[60:64], "big")
        if application != APPLICATION_ID:
            raise Invalid(
                f"{path} is a database of another program",
                remedy="give the path of a Holdfast ledger",
                code="ledger_foreign",
            )
        accept_format(path, version)
        if _lacks_pages(path, file) and _lacks_pages(path, file):  # a checkpoint may have ended between the two checks
            raise _truncated(path, size, "all its pages")


def _denied(path: str) -> NotPermitted:
    """A missing right says nothing about the ledger: it is not damage, and no backup helps (N01)."""
    folder = os.path.dirname(path)
    above = [folder[:at] or "/" for at, char in enumerate(folder) if char == "/"]  # not the state directory itself
    closed = next((one for one in above if not os.access(one, os.X_OK, effective_ids=True)), None)
    if closed is None:
        return NotPermitted(
            f"user {_user()} may not read {path}", remedy="repeat the command as the owner of that file, or with sudo"
        )
    return NotPermitted(
        f"user {_user()} may not enter {closed}, so it cannot read {path}", remedy=f"chmod a+x {quote(closed)}"
    )


def _user() -> str:
    with suppress(KeyError):  # a user without a name
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def look_inside(path: str, db: apsw.Connection) -> None:
    """Checks beyond the header: a newer format may still be in the WAL, and tables may be missing."""
    accept_format(path, db.pragma("user_version"))
    db.execute("SELECT max(revision) FROM changes").fetchall()


def accept_format(path: str, version: int) -> None:
    if version > FORMAT:
        raise Invalid(
            f"{path} has format {version}, this program supports up to {FORMAT}",
            remedy="install a newer holdfast on this machine",
            code="ledger_newer",
        )


def _lacks_pages(path: str, file: apsw.VFSFile) -> bool:
    """An interrupted checkpoint also leaves a short file, but then the missing pages are still in the WAL."""
    head = file.xRead(_HEADER_BYTES, 0)
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if page_bytes < 512:
        raise unreadable(path, "its header is invalid")
    present, announced = file.xFileSize() // page_bytes, int.from_bytes(head[28:32], "big")
    return present < announced and not set(range(present + 1, announced + 1)) <= _wal_pages(path)


def _wal_pages(path: str) -> set[int]:
    try:
        with open(f"{path}-wal", "rb") as file:
            wal = file.read()
    except FileNotFoundError:
        return set()
    page_bytes, salts = int.from_bytes(wal[8:12], "big"), wal[16:24]
    step = _FRAME_HEADER_BYTES + page_bytes
    return {
        int.from_bytes(wal[at : at + 4], "big")
        for at in range(_WAL_HEADER_BYTES, len(wal) - step + 1, step)
        if wal[at + 8 : at + 16] == salts
    }


@contextmanager
def _raw(path: str) -> Iterator[apsw.VFSFile]:
    """The bytes of the file, read through SQLite's VFS.

    A plain open and close would drop the POSIX locks which other connections of this process hold on the file.
    """
    try:
        file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    except apsw.Error as error:
        raise unreadable(path, str(error)) from error
    try:
        yield file
    except apsw.IOError as error:
        raise unreadable(path, str(error)) from error
    finally:
        file.xClose()


def _truncated(path: str, size: int, lacking: str) -> Corrupt:
    return Corrupt(f"{path} is truncated: {size} bytes do not hold {lacking}", remedy=RESTORE, code="ledger_truncated")


def can_be_read_silently(path: str) -> bool:
    """SQLite reads without writing if -wal and -shm exist, and the WAL is empty or holds more than a header.

    With only a header, or a torn one (a writer died in its first commit), and no writer running, it retries for 10 s.
    """
    try:
        with open(f"{path}-wal", "rb") as file:
            start = file.read(_WAL_HEADER_BYTES + 1)
    except FileNotFoundError:
        return False
    regular = len(start) > _WAL_HEADER_BYTES and start[:4] in _WAL_MAGICS
    return os.path.exists(f"{path}-shm") and (not start or regular)


def copy_at_rest(path: str, folder: str) -> str | None:
    """A private copy of a ledger without a running writer; None if a process wrote to it meanwhile."""
    from shutil import copyfile

    copy = os.path.join(folder, "ledger.db")
    before = _stamps(path)
    with _raw(path) as source, open(copy, "wb") as target:
        for at in range(0, source.xFileSize(), _COPY_BYTES):
            target.write(source.xRead(_COPY_BYTES, at))
    with suppress(FileNotFoundError):
        copyfile(f"{path}-wal", f"{copy}-wal")
    return copy if _stamps(path) == before else None


def _stamps(path: str) -> list[tuple[int, int, int]]:
    facts = [os.stat(name) for name in (path, f"{path}-wal") if os.path.exists(name)]
    return [(fact.st_ino, fact.st_size, fact.st_mtime_ns) for fact in facts]
