"""Files as they are read for an archive: content, holes, extended attributes, and the numbers that show a change."""

import base64
import errno
import os
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from hashlib import sha256
from mmap import mmap
from typing import Any

from holdfast.adapters.walking import settled
from holdfast.model.archive import TIME_MAX_NS, WHOLE_BYTES_MAX, Entry, spelled

EXTENTS_MAX = 10_000  # a file with more of them is stored as one without holes
TRIES = 3
_NO_XATTRS = frozenset({errno.ENOTSUP, errno.EPERM, errno.ENODATA})

Extents = tuple[tuple[int, int], ...]


def seen_of(about: os.stat_result) -> tuple[int, ...]:
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def facts(path: bytes, about: os.stat_result, xattrs: dict[str, str]) -> dict[str, Any]:
    """What every entry has."""
    mode = stat.S_IMODE(about.st_mode)
    return {
        "path": spelled(path), "mode": mode, "uid": about.st_uid, "gid": about.st_gid,
        "mtime_ns": max(-TIME_MAX_NS, min(about.st_mtime_ns, TIME_MAX_NS)), "xattrs": xattrs,
    }  # fmt: skip


def xattrs_of(target: int | str) -> dict[str, str]:
    """`target`: a handle, or the path of a symlink itself."""
    try:
        names = os.listxattr(target, follow_symlinks=isinstance(target, int))
    except OSError as trouble:
        if trouble.errno in _NO_XATTRS:
            return {}
        raise
    found = {}
    for name in sorted(names):
        try:
            value = os.getxattr(target, name, follow_symlinks=isinstance(target, int))
        except OSError as trouble:
            if trouble.errno in _NO_XATTRS:
                continue
            raise
        found[spelled(os.fsencode(name))] = base64.b64encode(value).decode()
    return found


def extents_of(file: int, about: os.stat_result) -> Extents:
    """Offset and length of all data, if the file has holes; else nothing."""
    size = about.st_size
    if about.st_blocks * 512 >= size:
        return ()
    found: list[tuple[int, int]] = []
    at = 0
    while at < size and len(found) <= EXTENTS_MAX:
        try:
            begin = os.lseek(file, at, os.SEEK_DATA)
        except OSError as trouble:
            if trouble.errno != errno.ENXIO:
                raise
            break
        at = min(os.lseek(file, begin, os.SEEK_HOLE), size)
        found.append((begin, at - begin))
    is_full = found == [(0, size)] or len(found) > EXTENTS_MAX
    return () if is_full else tuple(found) or ((0, 0),)


def data_in(extents: Extents, begin: int, content: memoryview) -> Extents:
    """Of what was read at `begin`. The file was asked for its extents before that: where a program wrote into a hole
    meanwhile, all of it is data, and what the file lost is none."""
    whole, end, done = ((begin, len(content)),), begin + len(content), begin
    found: list[tuple[int, int]] = []
    for at, length in extents[max(bisect_right(extents, (begin, end)) - 1, 0) :]:
        first, last = max(at, begin), min(at + length, end)
        if at >= end:
            break
        if first < last:
            if _has_data(content[done - begin : first - begin]):
                return whole
            found.append((first, last - first))
            done = last
    return whole if _has_data(content[done - begin :]) else tuple(found)


def joined(pieces: Iterable[tuple[int, int]], size: int) -> Extents:
    """What follows one another is one; nothing, if there is no hole."""
    found: list[tuple[int, int]] = []
    for at, length in pieces:
        if found and sum(found[-1]) == at:
            at, length = found[-1][0], found.pop()[1] + length
        found.append((at, length))
    return () if found == [(0, size)] or not size else tuple(found) or ((0, 0),)


def _has_data(content: memoryview) -> bool:
    return bool(bytes(content).strip(b"\0"))


class Reader:
    """Has one buffer for what is read; what it returns is valid until the next read."""

    def __init__(self) -> None:
        self._buffer = memoryview(mmap(-1, WHOLE_BYTES_MAX))

    def whole(self, file: int, size: int) -> memoryview:
        """As far as it was long when it was looked at: what a program appends meanwhile is the next run's."""
        return self._read(file, 0, size)

    def parts(
        self, file: int, size: int, extents: Extents, part_bytes: int
    ) -> Iterator[tuple[int, int, memoryview | None]]:
        """Number, length and content of each part; None: a hole."""
        waiting = list(reversed(extents))
        for number, begin in enumerate(range(0, size, part_bytes)):
            length = min(part_bytes, size - begin)
            while waiting and sum(waiting[-1]) <= begin:
                waiting.pop()
            is_hole = bool(extents) and (not waiting or waiting[-1][0] >= begin + length)
            if is_hole:
                yield number, length, None
                continue
            content = self._read(file, begin, length)
            yield number, len(content), content
            if len(content) < length:
                return

    def _read(self, file: int, begin: int, length: int) -> memoryview:
        end = 0
        while end < length and (done := os.preadv(file, [self._buffer[end:length]], begin + end)):
            end += done
        return self._buffer[:end]


def is_same(before: os.stat_result, now: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (now.st_size, now.st_mtime_ns, now.st_ctime_ns)


def is_recent(about: os.stat_result, before_ns: int) -> bool:
    """`before_ns`: a time before `about` was read."""
    return about.st_ctime_ns > before_ns - settled.RECENT_NS


def digest(content: memoryview) -> str:
    return sha256(content).hexdigest()


def has_same_facts(before: Entry, facts: dict[str, Any]) -> bool:
    return all(getattr(before, key) == value for key, value in facts.items())
