"""The content of one file: shared if the file system can (reflinks), else copied, or only the blocks that differ.

Holes stay holes. Two threads compare: reading two files from memory is bound by one core.
"""

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from holdfast.adapters.walking.settled import settle as settle

RESERVE_MAX_BYTES = 1 << 30
RESERVE_SHARE = 20  # a twentieth of a small disk
COMPARED_FROM_BYTES = 1 << 20  # a smaller file is written again
_FICLONE = 0x40049409
_CHUNK = 32 << 20
_WINDOW = 1 << 20  # compared at once
_BLOCK = 64 << 10  # written at once
_THREADS = 2
_CANNOT = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM})
_FALLOC_PUNCH = 0x03  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE

Tell = Callable[[int], None]  # bytes done since the last call; it may raise, which ends the copy

_libc = ctypes.CDLL(None, use_errno=True)
_memcmp = _libc.memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def clone(source: int, target: int, size_bytes: int) -> bool:
    """All of it, in an instant; False if this file system cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as trouble:
        if trouble.errno not in _CANNOT:
            raise
        return False
    resize_copy(target, size_bytes)
    return True


def copy(source: int, target: int, about: os.stat_result, tell: Tell) -> int:
    """Into an empty file, as far as it was long when it was looked at: what a program appends meanwhile is the next
    pass's. Answers how many bytes were written."""
    needed_bytes = min(about.st_size, about.st_blocks * 512)
    keep_reserve(target, needed_bytes)
    end = written = 0
    while end < about.st_size and (begin := _next(source, end, os.SEEK_DATA)) is not None:
        end = min(_next(source, begin, os.SEEK_HOLE) or about.st_size, about.st_size)
        written += _range(source, target, begin, end, tell)
    resize_copy(target, about.st_size)  # it may end in a hole
    return written


def update(source: int, target: int, about: os.stat_result, tell: Tell) -> int:
    """Write the blocks that differ into a copy of an earlier state. Answers how many bytes were written."""
    resize_copy(target, about.st_size)
    pieces: list[tuple[int, int]] = []
    end = 0
    while end < about.st_size:
        begin = _next(source, end, os.SEEK_DATA)
        hole_end = about.st_size if begin is None else begin
        _punch(target, end, hole_end)
        if begin is None:
            break
        end = min(_next(source, begin, os.SEEK_HOLE) or about.st_size, about.st_size)
        pieces += [(at, min(at + _CHUNK, end)) for at in range(begin, end, _CHUNK)]
    with ThreadPoolExecutor(_THREADS) as threads:
        shares = [threads.submit(_compare_all, source, target, pieces[n::_THREADS]) for n in range(_THREADS)]
        written = sum(share.result() for share in shares)
    tell(written)
    return written


def resize_copy(target: int, size_bytes: int) -> None:
    """Of a file inside a copy that is being made, never of data."""
    os.ftruncate(target, size_bytes)


def keep_reserve(target: int, needed_bytes: int) -> None:
    """Refuse before the disk is full: running programs need the rest."""
    if room_bytes(target) < needed_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def room_bytes(handle: int) -> int:
    """What copies may still take of this file system."""
    disk = os.fstatvfs(handle)
    reserve_bytes = min(disk.f_blocks * disk.f_frsize // RESERVE_SHARE, RESERVE_MAX_BYTES)
    return disk.f_bavail * disk.f_frsize - reserve_bytes


def flush_all(handle: int) -> None:
    """The whole file system; raises what the disk reported since `handle` was opened."""
    if _libc.syncfs(handle) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _next(file: int, at: int, what: int) -> int | None:
    try:
        return os.lseek(file, at, what)
    except OSError as trouble:
        if trouble.errno != errno.ENXIO:  # ENXIO: only a hole follows
            raise
        return None


def _range(source: int, target: int, begin: int, end: int, tell: Tell) -> int:
    at = begin
    while at < end:
        wanted = min(end - at, _CHUNK)
        try:
            moved = os.copy_file_range(source, target, wanted, at, at)
        except OSError as trouble:
            if trouble.errno not in _CANNOT:
                raise
            moved = os.pwrite(target, os.pread(source, min(wanted, _WINDOW), at), at)
        if moved == 0:  # the file became shorter meanwhile
            break
        at += moved
        tell(moved)
    return at - begin


def _punch(target: int, begin: int, end: int) -> None:
    """What became a hole in the source; where the copy has one already, this does nothing."""
    data = _next(target, begin, os.SEEK_DATA)
    if data is None or data >= end or _libc.fallocate(target, _FALLOC_PUNCH, begin, end - begin) == 0:
        return
    for at in range(begin, end, _WINDOW):  # this file system makes no holes
        os.pwrite(target, bytes(min(_WINDOW, end - at)), at)


def _compare_all(source: int, target: int, pieces: list[tuple[int, int]]) -> int:
    ours, theirs = mmap.mmap(-1, _WINDOW), mmap.mmap(-1, _WINDOW)
    return sum(_compare(source, target, at, ours, theirs) for at in _windows(pieces))


def _windows(pieces: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for begin, end in pieces:
        yield from ((at, min(at + _WINDOW, end)) for at in range(begin, end, _WINDOW))


def _compare(source: int, target: int, window: tuple[int, int], ours: mmap.mmap, theirs: mmap.mmap) -> int:
    begin, end = window
    wanted, copied = memoryview(ours), memoryview(theirs)
    length = os.preadv(source, [wanted[: end - begin]], begin)
    known = os.preadv(target, [copied[:length]], begin)
    at_source, at_target = _address(ours), _address(theirs)
    if known == length and _memcmp(at_source, at_target, length) == 0:
        return 0
    written = 0
    for at in range(0, length, _BLOCK):
        size = min(_BLOCK, length - at)
        if at + size > known or _memcmp(at_source + at, at_target + at, size) != 0:
            written += os.pwrite(target, wanted[at : at + size], begin + at)
    return written


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def can_clone(shelf: int) -> bool:
    """Whether copies on this file system take no space."""
    names = (".probe-1", ".probe-2")
    files = [os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=shelf) for name in names]
    try:
        os.pwrite(files[0], bytes(_BLOCK), 0)
        return clone(files[0], files[1], _BLOCK)
    finally:
        for name, file in zip(names, files, strict=True):
            os.close(file)
            _drop_probe(name, shelf)


def _drop_probe(name: str, shelf: int) -> None:
    os.unlink(name, dir_fd=shelf)
