"""A process that copies one SQLite database with SQLite itself, with no more rights than the database's owner has.

A database is data of a container, and SQLite parses it: so no root, no network, no other program, and bounded memory,
time and disk. Directories come as handles, because the owner may not reach them by path.
"""

import base64
import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from contextlib import suppress
from typing import NoReturn

import apsw
import msgspec
from msgspec import Struct

COPY = "copy"
BUSY_MS = 10_000
MEMORY_BYTES = 1 << 30
CPU_S = 4 * 3600
_PDEATHSIG, _SET_DUMPABLE, _SET_SECCOMP, _NO_NEW_PRIVS = 1, 4, 22, 38
_FILTER = 2
# socket, ptrace, execve, execveat, io_uring_setup: a ring opens sockets too
_REFUSED = {"x86_64": (0xC000003E, (41, 101, 59, 322, 425)), "aarch64": (0xC00000B7, (198, 117, 221, 281, 425))}
_OTHER_TABLE = 0x40000000  # numbers from here on are of another table (x32)
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _EPERM = 0x7FFF0000, 0x80000000, 0x00050001


class Ask(Struct, frozen=True):
    name: str  # in its directory; base64
    uid: int
    gid: int
    size_bytes_max: int
    has_wal: bool


class Answer(Struct, frozen=True):
    """`kind`: copied, damaged, busy, failed."""

    kind: str
    why: str = ""


def main(source: int, out: int) -> NoReturn:
    """`source` and `out`: handles of the database's directory, and of one for the copy."""
    ask = msgspec.json.decode(sys.stdin.buffer.readline(), type=Ask)
    _renounce(ask)
    answer = _answered(ask, f"/proc/self/fd/{source}", f"/proc/self/fd/{out}/{COPY}")
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    sys.stdout.buffer.flush()
    os._exit(0)


def _renounce(ask: Ask) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, most in (
        (resource.RLIMIT_FSIZE, ask.size_bytes_max),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(ask.gid, ask.gid, ask.gid)
        os.setresuid(ask.uid, ask.uid, ask.uid)
        header, data = struct.pack("II", 0x20080522, 0), bytes(24)
        if libc.capset(header, data):
            raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "privileges cannot be given up")
    libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self/fd belongs to root
    libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # now: another owner clears it
    _refuse(libc)


def _refuse(libc: ctypes.CDLL) -> None:
    """No new socket, no other program."""
    architecture, numbers = _REFUSED[platform.machine()]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    steps += [(_AT_LEAST, 0, 1, _OTHER_TABLE), (_RETURN, 0, 0, _EPERM)]
    for number in numbers:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    held = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(held))
    if libc.prctl(_SET_SECCOMP, _FILTER, head, 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls cannot be set")


class _Handles(apsw.VFS):
    """Takes paths as they are: SQLite itself would resolve /proc/self/fd to paths that the owner cannot reach."""

    def __init__(self) -> None:
        super().__init__("handles", "unix")

    def xFullPathname(self, name: str) -> str:
        return name


def _answered(ask: Ask, folder: str, copy: str) -> Answer:
    handles = _Handles()
    try:
        _copy(ask, folder, copy)
        return _checked(copy)
    except (apsw.CorruptError, apsw.NotADBError) as trouble:
        return Answer("damaged", str(trouble))
    except (apsw.BusyError, apsw.LockedError) as trouble:
        return Answer("busy", str(trouble))
    except (apsw.Error, OSError, MemoryError) as trouble:
        return Answer("failed", str(trouble) or type(trouble).__name__)
    finally:
        handles.unregister()


def _copy(ask: Ask, folder: str, copy: str) -> None:
    name = os.fsdecode(base64.b64decode(ask.name))
    database = apsw.Connection(f"{folder}/{name}", vfs="handles", flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        database.set_busy_timeout(BUSY_MS)
        if ask.has_wal:  # it stays as it is; without one, closing removes what opening made
            database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        database.execute("PRAGMA schema_version").fetchall()  # undoes what a crash left, with all its syncs
        database.execute("PRAGMA synchronous = OFF")  # of the copy: it is read once and never needed after a crash
        database.execute(f"VACUUM INTO '{copy}'")
    finally:
        with suppress(apsw.Error):
            database.close()


def _checked(path: str) -> Answer:
    copy = apsw.Connection(path, vfs="handles", flags=apsw.SQLITE_OPEN_READONLY)
    found = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(3)")]
    copy.close()
    return Answer("copied") if found == ["ok"] else Answer("damaged", "; ".join(found)[:300])
