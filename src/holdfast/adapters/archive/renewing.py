"""A directory that has an earlier tree and is brought to a later one: names are relative to handles, as in target.py.

Directories are dressed already: what is made in one may inherit a group or an access list. So everything that is
written gets exactly the owner, mode and attributes of its entry.
"""

import base64
import ctypes
import errno
import os
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.adapters.archive.target import _OF_THE_MACHINE, _READ, HANDLES_MAX, Target, write_data
from holdfast.model.archive import Entry, names_of, spelled, spoken

SYNCED_MAX = 512  # more files than this: all of the disk is synced
WAY_MAX = HANDLES_MAX // 2
SYNC_THREADS = 8  # they share the commits of the file system's journal
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_KEEP_SIZE, _PUNCH = 1, 2
_ZEROS = bytes(1 << 20)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Renewed(Target):
    """`is_sure`: the directory has exactly the earlier tree. Else an update was interrupted, and anything that it was
    to change may be there or not."""

    def __init__(self, top: int, part_bytes: int, is_sure: bool) -> None:
        super().__init__(top, part_bytes)
        self._is_sure = is_sure

    def _handle(self, names: tuple[bytes, ...]) -> int:
        """With handles of the last directories on the way: what is removed comes from the depth upwards."""
        if names not in self._handles():
            for length in range(max(len(names) - WAY_MAX, 1), len(names)):
                super()._handle(names[:length])
        return super()._handle(names)

    # ---- removing

    def remove(self, entry: Entry) -> None:
        try:
            above, name = self._place(entry)
            is_directory = stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
            if is_directory == (entry.type == "dir"):
                (os.rmdir if is_directory else os.unlink)(name, dir_fd=above)
            elif self._is_sure:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), spelled(name))
        except (FileNotFoundError, NotADirectoryError):
            if self._is_sure:
                raise

    # ---- writing

    def file(self, entry: Entry, content: memoryview) -> None:
        """Made, or written in place: other names of the file see it too."""
        file = self._opened(entry, os.O_CREAT | os.O_TRUNC)
        try:
            if entry.data:
                os.ftruncate(file, entry.size)
            write_data(file, entry, 0, content)
            self._dress(file, entry)
        finally:
            os.close(file)

    def begin_long(self, entry: Entry, numbers: Sequence[int] | None) -> None:
        """`numbers`: the parts that follow; None: all, into a new or an emptied file."""
        file = self._opened(entry, os.O_CREAT | (os.O_TRUNC if numbers is None else 0))
        try:
            os.ftruncate(file, entry.size)
            for number in numbers or ():
                if not entry.parts[number].pack:
                    _punch(file, number * self._part_bytes, self._part_bytes)
        finally:
            os.close(file)

    def part(self, entry: Entry, number: int, content: memoryview) -> None:
        file = self._opened(entry, 0)
        try:
            if entry.data:
                _punch(file, number * self._part_bytes, self._part_bytes)
            write_data(file, entry, number * self._part_bytes, content)
        finally:
            os.close(file)

    def dress(self, entry: Entry) -> None:
        file = self._opened(entry, 0)
        try:
            self._dress(file, entry)
        finally:
            os.close(file)

    def _opened(self, entry: Entry, flags: int) -> int:
        above, name = self._place(entry)
        file = os.open(name, _WRITE | flags, 0o600, dir_fd=above)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "it is no file", spelled(name))
        return file

    def _dress(self, file: int, entry: Entry) -> None:
        """Owner first: changing the owner clears set-uid bits and capabilities. An access list changes the mode."""
        os.fchown(file, entry.uid, entry.gid)
        wanted = {spoken(key): base64.b64decode(value) for key, value in entry.xattrs.items()}
        for key in map(os.fsencode, _attributes(file)):
            if key not in wanted and key.decode("utf-8", "replace") not in _OF_THE_MACHINE:
                os.removexattr(file, key)
        os.fchmod(file, entry.mode)
        for key, value in wanted.items():
            if key.decode("utf-8", "replace") not in _OF_THE_MACHINE:
                os.setxattr(file, key, value)
        os.utime(file, ns=(entry.mtime_ns, entry.mtime_ns))

    # ---- the disk

    def sync(self, files: Iterable[bytes], directories: Iterable[bytes], count: int) -> None:
        """Only what was written, unless it is much: the disk may have much to write that is not ours."""
        if count > SYNCED_MAX:
            self.flush()
            return
        with ThreadPoolExecutor(SYNC_THREADS) as threads:
            list(threads.map(self._sync, files))
            list(threads.map(self._sync_directory, directories))

    def _sync(self, path: bytes) -> None:
        *above, name = names_of(path)
        file = os.open(name, _READ, dir_fd=self._handle(tuple(above)))
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def _sync_directory(self, path: bytes) -> None:
        handle = os.open(".", _READ | os.O_DIRECTORY, dir_fd=self._handle(tuple(names_of(path)) if path else ()))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _attributes(file: int) -> list[str]:
    try:
        return os.listxattr(file)
    except OSError as trouble:
        if trouble.errno in (errno.ENOTSUP, errno.EPERM):
            return []
        raise


def _punch(file: int, begin: int, length: int) -> None:
    """A hole, or zeros where the file system has none. It may reach beyond the end: a block that it covers in
    part gets zeros."""
    if not _libc.fallocate(file, _KEEP_SIZE | _PUNCH, begin, length):
        return
    if ctypes.get_errno() not in (errno.EOPNOTSUPP, errno.ENOSYS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    end = min(begin + length, os.fstat(file).st_size)
    for at in range(begin, end, len(_ZEROS)):
        os.pwrite(file, _ZEROS[: end - at], at)
