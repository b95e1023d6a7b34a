"""The audit log: a file of JSON lines with a separate head file. Appends only; repairs only a torn last line."""

import errno
import os
import stat
import threading

from holdfast.adapters.audit_log import head_file, reading
from holdfast.adapters.audit_log import line as lines_of
from holdfast.adapters.process.boot import boot_id
from holdfast.errors import Corrupt, Failed, HoldfastError, TryLater
from holdfast.model import audit
from holdfast.model.audit import NO_ENTRIES, AuditEntry, AuditHead, Event
from holdfast.ports.clock import Clock
from holdfast.ports.disk import Disk

_OPEN = os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_UNSYNCED_MAX = 1000  # entries written without a flush; a power cut can lose this many
_ACTOR = "audit"


class FileAuditLog:
    """One writer. New entries follow the head file, so a log that was cut or changed stays visibly broken."""

    def __init__(self, path: str, head_path: str, clock: Clock, disk: Disk, boot: str | None = None) -> None:
        self.path = path
        self.head_path = head_path
        self._clock = clock
        self._boot = boot_id() if boot is None else boot
        self._turn = threading.Lock()
        self._trouble: HoldfastError | None = None
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _OPEN, 0o600)
        except OSError as trouble:
            raise _failed(path, trouble) from trouble
        try:
            self._start(disk)
        except OSError as trouble:
            os.close(self._handle)
            raise _failed(path, trouble) from trouble

    def _start(self, disk: Disk) -> None:
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        remarks: list[str] = []
        mark = self._mark(remarks)
        size = os.fstat(self._handle).st_size
        end = self._mended(size, mark, remarks)
        self._head = self._tail(mark, end)
        os.fdatasync(self._handle)
        self._size = self._synced_bytes = end
        self._synced = self._head
        self._unsynced = 0
        first = head_file.Mark(mark.turn if mark else 0, self._head, end, self._head, self._boot)
        self._marks = head_file.HeadFile(self.head_path, first, disk)
        for remark in remarks:
            self.append(Event(_ACTOR, "audit-mended", os.path.basename(self.path), "failed", remark))

    def _mark(self, remarks: list[str]) -> head_file.Mark | None:
        try:
            mark = head_file.read(self.head_path)
        except Corrupt as trouble:
            remarks.append(trouble.message)
            return None
        if mark is None and os.fstat(self._handle).st_size:
            remarks.append("the head file of this log was missing")
        return mark

    def _mended(self, size: int, mark: head_file.Mark | None, remarks: list[str]) -> int:
        """Cut off an incomplete last line that a crash left; it was never acknowledged. Complete lines stay."""
        end = reading.complete_end(self._handle, size)
        if end == size:
            return size
        if mark is not None and end < mark.synced_bytes:  # a crash cannot cause this: leave it for verify to report
            remarks.append(f"the log ends in the middle of entry {mark.synced.number}, which was flushed")
            os.write(self._handle, b"\n")
            return size + 1
        os.ftruncate(self._handle, end)
        remarks.append(f"an incomplete last line was cut off after a crash: {size - end} bytes")
        return end

    def _tail(self, mark: head_file.Mark | None, end: int) -> AuditHead:
        """The head that the next entry follows: the log's end if it continues the head file, else the head file's."""
        known = mark.synced if mark else NO_ENTRIES
        start = mark.synced_bytes if mark else 0
        head = known
        try:
            for line in reading.every(self._handle, min(start, end), end):
                head = audit.follow(head, line)
        except Corrupt:
            newest = mark.newest if mark else NO_ENTRIES
            return newest if newest.number > head.number else head
        expected = mark.expected(self._boot) if mark else NO_ENTRIES
        return head if head.number >= expected.number and start <= end else expected

    def append(self, event: Event, durable: bool = True) -> AuditEntry:
        with self._turn:
            if self._trouble is not None:
                raise self._trouble
            made = lines_of.after(self._head, event, int(self._clock.now_s() * 1000))
            self._write(made.line + b"\n")
            self._head = made.head
            self._unsynced += 1
            if durable or self._unsynced >= _UNSYNCED_MAX:
                self._flush()
            self._marks.write(self._synced, self._synced_bytes, self._head, self._boot)
            return made.entry

    def _write(self, content: bytes) -> None:
        try:
            written = os.write(self._handle, content)
            if written != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as trouble:
            os.ftruncate(self._handle, self._size)  # an incomplete line would damage the next one
            raise _failed(self.path, trouble) from trouble
        self._size += len(content)

    def _flush(self) -> None:
        try:
            os.fdatasync(self._handle)
        except OSError as trouble:  # a second fsync could falsely report success (R06)
            self._trouble = _failed(self.path, trouble)
            raise self._trouble from trouble
        self._synced, self._synced_bytes, self._unsynced = self._head, self._size, 0

    def head(self) -> AuditHead:
        return self._head

    def lines(self, after: int = 0, limit: int = 1000) -> list[bytes]:
        return reading.from_number(self._handle, self._size, after, limit)

    def newest(self, limit: int) -> list[bytes]:
        return reading.newest(self._handle, self._size, limit)

    def verify(self) -> AuditHead:
        with self._turn:
            head, size = self._head, os.fstat(self._handle).st_size
            mark = head_file.read(self.head_path)
        if mark is None or mark.newest != head or size < self._size:
            raise _disagrees(self.path, head)
        return audit.verify(reading.every(self._handle, 0, size), head)

    def close(self) -> None:
        with self._turn:
            if self._trouble is None:
                self._flush()
                self._marks.write(self._synced, self._synced_bytes, self._head, self._boot)
            self._trouble = TryLater(f"{self.path} is closed", remedy="open it again", code="store_closed")
            self._marks.close()
            os.close(self._handle)


def _disagrees(path: str, head: AuditHead) -> Corrupt:
    return Corrupt(
        f"the audit log {path} is broken: another program changed it, or its head is no longer entry {head.number}",
        remedy="keep both files as evidence; the hub has a copy of a node's log: holdfast audit --node NAME --verify",
        code="audit_broken",
    )


def _failed(path: str, trouble: OSError) -> Failed:
    if trouble.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed(
            f"no space is left for the audit log {path}; actions that must be audited are refused until space is free",
            remedy=f"free space on the file system of {path}",
            code="no_space",
        )
    return Failed(
        f"cannot use the audit log {path}: {trouble.strerror}",
        remedy="check the disk and that the file is a regular file of this user, then restart this process",
        code="disk_failed",
    )
