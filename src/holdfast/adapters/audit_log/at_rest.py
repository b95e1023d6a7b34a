"""Read and verify an audit log file without opening it for writing."""

import os
import time

from holdfast.adapters.audit_log import head_file, reading
from holdfast.adapters.process.boot import boot_id
from holdfast.errors import Corrupt, Failed
from holdfast.model import audit
from holdfast.model.audit import NO_ENTRIES, AuditHead

_LOOKS = 3
_PAUSE_S = 0.05


def verify(path: str, head_path: str, boot: str | None = None) -> AuditHead:
    """Verify the chain against the head file, which is read first: a running writer only adds entries after it."""
    mark = head_file.read(head_path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if mark is None or mark.newest == NO_ENTRIES:
            return NO_ENTRIES
        raise _broken(path, f"the file is gone, but it had {mark.newest.number} entries") from None
    except OSError as trouble:
        raise Failed(
            f"cannot read {path}: {trouble.strerror}", remedy="run this as its owner", code="disk_failed"
        ) from trouble
    try:
        size = _settled(handle, path)
        if mark is None and size:
            raise _broken(path, f"its head file {head_path} is gone")
        expected = mark.expected(boot_id() if boot is None else boot) if mark else None
        return audit.verify(reading.every(handle, 0, size), expected)
    finally:
        os.close(handle)


def newest(path: str, limit: int) -> list[bytes]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        return reading.newest(handle, reading.complete_end(handle, os.fstat(handle).st_size), limit)
    finally:
        os.close(handle)


def _settled(handle: int, path: str) -> int:
    """The size once the last line is complete: a running writer finishes a line within milliseconds."""
    for _ in range(_LOOKS):
        size = os.fstat(handle).st_size
        if reading.complete_end(handle, size) == size:
            return size
        time.sleep(_PAUSE_S)
    raise _broken(path, "it ends in the middle of an entry; if a crash caused this, restarting the daemon repairs it")


def _broken(path: str, why: str) -> Corrupt:
    return Corrupt(
        f"the audit log {path} is broken: {why}",
        remedy="keep both files as evidence; the hub has a copy of a node's log: holdfast audit --node NAME --verify",
        code="audit_broken",
    )
