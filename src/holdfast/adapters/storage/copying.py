"""Copy a tree of files into an empty directory: complete, with metadata, and flushed to disk.

Names are opened relative to handles and never through a symlink, because containers wrote the source. Blocks are shared
if the file system can (reflinks); holes and hard links inside the tree are preserved.
"""

import ctypes
import errno
import fcntl
import os
import stat
from contextlib import suppress

from msgspec import Struct

from holdfast.adapters.storage import tree

LEFT_OUT_MAX = 20  # names that are reported
RESERVE_MAX_BYTES = 1 << 30
_FICLONE = 0x40049409
_CHUNK = 64 << 20
_PATH_MAX = 4000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CANNOT = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM})


class Copied(Struct, frozen=True):
    size_bytes: int
    left_out: tuple[str, ...]


def copy(source: int, target: int) -> Copied:
    done = _Copying(target).run(source)
    _flush(target)
    return done


class _Copying:
    """`there` is the directory being filled, always the counterpart of the walk's current directory."""

    def __init__(self, target: int) -> None:
        self._top = target
        self._there = os.dup(target)
        self._path: list[str] = []
        self._links: dict[tuple[int, int], str] = {}  # a file with several names → the path of its first copy
        self._size_bytes = 0
        self._left_out: list[str] = []

    def run(self, source: int) -> Copied:
        try:
            for visit in tree.walk(source):
                self._follow(visit)
        finally:
            os.close(self._there)
        return Copied(self._size_bytes, tuple(self._left_out[:LEFT_OUT_MAX]))

    def _follow(self, visit: tree.Visit) -> None:
        if visit.kind == "enter":
            os.mkdir(visit.name, 0o700, dir_fd=self._there)
            self._step(visit.name)
            self._path.append(visit.name)
        elif visit.kind == "leave":
            _dress(self._there, visit.here, visit.about)  # last: filling it changed its mtime
            if self._path:
                self._path.pop()
                self._step("..")
        else:
            self._entry(visit)

    def _step(self, name: str) -> None:
        there = tree.opened(name, self._there)
        os.close(self._there)
        self._there = there

    def _entry(self, visit: tree.Visit) -> None:
        name, mode = visit.name, visit.about.st_mode
        if stat.S_ISREG(mode):
            self._file(visit)
        elif stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=visit.here), name, dir_fd=self._there)
            self._name_only(visit)
        elif stat.S_ISFIFO(mode):
            os.mkfifo(name, 0o600, dir_fd=self._there)
            os.chmod(name, stat.S_IMODE(mode), dir_fd=self._there)
            self._name_only(visit)
        else:
            self._left_out.append("/".join([*self._path, name]))

    def _name_only(self, visit: tree.Visit) -> None:
        about = visit.about
        os.chown(visit.name, about.st_uid, about.st_gid, dir_fd=self._there, follow_symlinks=False)
        times = (about.st_atime_ns, about.st_mtime_ns)
        os.utime(visit.name, ns=times, dir_fd=self._there, follow_symlinks=False)

    def _file(self, visit: tree.Visit) -> None:
        about, path = visit.about, "/".join([*self._path, visit.name])
        key = (about.st_dev, about.st_ino)
        if key in self._links:
            os.link(self._links[key], visit.name, src_dir_fd=self._top, dst_dir_fd=self._there, follow_symlinks=False)
            return
        self._copy_file(visit)
        self._size_bytes += about.st_size
        if about.st_nlink > 1 and len(os.fsencode(path)) < _PATH_MAX:
            self._links[key] = path

    def _copy_file(self, visit: tree.Visit) -> None:
        source = os.open(visit.name, _READ, dir_fd=visit.here)
        try:
            about = os.fstat(source)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(errno.ESTALE, "a file was replaced while it was read", visit.name)
            target = os.open(visit.name, _WRITE, 0o600, dir_fd=self._there)
            try:
                _content(source, target, about)
                _dress(target, source, about)
            finally:
                os.close(target)
        finally:
            os.close(source)


def _dress(target: int, source: int, about: os.stat_result) -> None:
    """Owner first: changing the owner clears set-uid bits and capabilities."""
    os.fchown(target, about.st_uid, about.st_gid)
    os.fchmod(target, stat.S_IMODE(about.st_mode))
    for name in os.listxattr(source):
        with suppress(OSError):  # not supported by this file system or kernel
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))


def _content(source: int, target: int, about: os.stat_result) -> None:
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return
    except OSError as trouble:
        if trouble.errno not in _CANNOT:
            raise
    _keep_reserve(target, min(about.st_size, about.st_blocks * 512))
    end = 0
    while (begin := _next(source, end, os.SEEK_DATA)) is not None:
        end = _next(source, begin, os.SEEK_HOLE) or about.st_size
        _range(source, target, begin, end)
    if end < about.st_size:  # it ends in a hole
        os.pwrite(target, b"\0", about.st_size - 1)


def _keep_reserve(target: int, needed_bytes: int) -> None:
    """Refuse before the disk is full: running programs need the rest."""
    disk = os.fstatvfs(target)
    reserve_bytes = min(disk.f_blocks * disk.f_frsize // 20, RESERVE_MAX_BYTES)
    if disk.f_bavail * disk.f_frsize - needed_bytes < reserve_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _next(file: int, at: int, what: int) -> int | None:
    try:
        return os.lseek(file, at, what)
    except OSError as trouble:
        if trouble.errno != errno.ENXIO:  # ENXIO: only a hole follows
            raise
        return None


def _range(source: int, target: int, begin: int, end: int) -> None:
    while begin < end:
        wanted = min(end - begin, _CHUNK)
        try:
            moved = os.copy_file_range(source, target, wanted, begin, begin)
        except OSError as trouble:
            if trouble.errno not in _CANNOT:
                raise
            moved = os.pwrite(target, os.pread(source, min(wanted, 1 << 20), begin), begin)
        if moved == 0:  # the file became shorter meanwhile
            return
        begin += moved


def _flush(top: int) -> None:
    """syncfs first, for speed; then fsync of each file, because only that reports errors."""
    ctypes.CDLL(None, use_errno=True).syncfs(top)
    for visit in tree.walk(top):
        if visit.kind == "leave":
            os.fsync(visit.here)
        elif visit.kind == "entry" and stat.S_ISREG(visit.about.st_mode):
            file = os.open(visit.name, _READ, dir_fd=visit.here)
            try:
                os.fsync(file)
            finally:
                os.close(file)
