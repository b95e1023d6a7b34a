"""What SQLite complains about, in our words. Decides which complaints end all writing; touches nothing."""

from __future__ import annotations

import errno
import os

import apsw

from holdfast.errors import Corrupt, Failed, HoldfastError, Invalid, TryLater

# A flush that failed may have dropped the pages it was to write; trying again would only look like success (R06).
_FLUSHES = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})
_OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})

RESTORE = "restore the ledger from a backup"


class Locked(TryLater):
    """Worth another try, and a conflict to a command that ends with it (contract.md: 5 = locked)."""

    code = "ledger_locked"
    exit_code = 5


def trouble(error: apsw.Error, path: str, system_errno: int = 0) -> HoldfastError:
    if isinstance(error, (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)):
        return Locked(f"another process is writing {path}", remedy="try again when it is done")
    if isinstance(error, apsw.FullError) or _lacks_space(error, system_errno):
        return _no_space(path)
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)):
        return unreadable(path, str(error))
    if isinstance(error, apsw.TooBigError):
        return Invalid(f"a value is too big for {path}", remedy="store it in smaller parts")
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
        f"{path} cannot be written safely any more: {reason}; whether the last change was kept shows after a restart",
        remedy="check the disk, then restart this process",
        code="store_failed",
    )


def unreadable(path: str, reason: str) -> Corrupt:
    return Corrupt(f"{path} is not readable as a ledger: {reason}", remedy=RESTORE, code="ledger_unreadable")


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
