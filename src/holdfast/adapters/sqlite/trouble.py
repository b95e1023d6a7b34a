"""Translate SQLite errors into Holdfast errors, and decide which of them end all writing. Pure."""

from __future__ import annotations

import errno
import os

import apsw

from holdfast.errors import Corrupt, Failed, HoldfastError, Invalid, TryLater

# A failed flush may have dropped the pages it should have written; a retry could falsely report success (R06).
_FLUSHES = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})
_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

RESTORE = "restore the ledger from a backup"


class Locked(TryLater):
    """Worth a retry; a command that ends with it reports a conflict (contract.md: 5 = locked)."""

    code = "ledger_locked"
    exit_code = 5


def trouble(error: apsw.Error, path: str, system_errno: int = 0) -> HoldfastError:
    if isinstance(error, (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)):
        return Locked(f"another process is writing {path}", remedy="try again when it has finished")
    if isinstance(error, apsw.FullError) or _lacks_space(error, system_errno):
        return _no_space(path)
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)):
        return unreadable(path, str(error))
    if isinstance(error, apsw.TooBigError):
        return Invalid(f"a value is too large for {path}", remedy="store it in smaller parts")
    if isinstance(error, (apsw.ConnectionClosedError, apsw.ConnectionNotClosedError)):
        return TryLater(f"{path} is closed", remedy="open it again", code="store_closed")
    reason = f"{error} ({os.strerror(system_errno)})" if system_errno else str(error)
    return failed(path, reason)


def os_trouble(error: OSError, path: str) -> HoldfastError:
    return _no_space(path) if error.errno in _OUT_OF_SPACE else failed(path, str(error))


def ends_writing(outcome: HoldfastError) -> bool:
    return isinstance(outcome, (Failed, Corrupt)) and outcome.code != "no_space"


def failed(path: str, reason: str) -> Failed:
    return Failed(
        f"cannot write {path} safely any more: {reason}; a restart shows whether the last change was kept",
        remedy="check the disk, then restart this process",
        code="store_failed",
    )


def unreadable(path: str, reason: str) -> Corrupt:
    return Corrupt(f"cannot read {path} as a ledger: {reason}", remedy=RESTORE, code="ledger_unreadable")


def _no_space(path: str) -> Failed:
    return Failed(
        f"no space is left for {path}; nothing was written",
        remedy=f"free space on the file system of {path} and repeat the command",
        code="no_space",
    )


def _lacks_space(error: apsw.Error, system_errno: int) -> bool:
    return (
        isinstance(error, (apsw.IOError, apsw.CantOpenError))
        and getattr(error, "extendedresult", 0) not in _FLUSHES
        and system_errno in _OUT_OF_SPACE
    )
