"""An audit log that somebody else writes, or nobody: read and verified without touching it."""

import os
import time

from holdfast.adapters.audit_log import head_file, reading
from holdfast.adapters.audit_log.file import boot_id
from holdfast.errors import Corrupt, Failed
from holdfast.model import audit
from holdfast.model.audit import NO_ENTRIES, AuditHead

_LOOKS = 3
_PAUSE_S = 0.05


def verify(path: str, head_path: str, boot: str | None = None) -> AuditHead:
    """The whole chain and the head kept apart, which is read first: a live writer is always ahead of it."""
    mark = head_file.read(head_path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if mark is None or mark.newest == NO_ENTRIES:
            return NO_ENTRIES
        raise _broken(path, f"it is gone, {mark.newest.number} entries were seen before") from None
    except OSError as trouble:
        raise Failed(
            f"{path} cannot be read: {trouble.strerror}", remedy="run this as its owner", code="disk_failed"
        ) from trouble
    try:
        size = _settled(handle, path)
        if mark is None and size:
            raise _broken(path, f"its head {head_path} is gone")
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
    """A writer may be in the middle of a line; nobody is for long."""
    for _ in range(_LOOKS):
        size = os.fstat(handle).st_size
        if reading.complete_end(handle, size) == size:
            return size
        time.sleep(_PAUSE_S)
    raise _broken(path, "it ends in the middle of an entry; starting its owner mends what a crash tore")


def _broken(path: str, why: str) -> Corrupt:
    return Corrupt(
        f"the audit log {path} is broken: {why}",
        remedy="keep both files as evidence; compare them with the copies of hub and node: holdfast audit --node NAME",
        code="audit_broken",
    )
