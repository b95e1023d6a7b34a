"""A tree of files below a directory handle: count, walk, delete. Follows no symlink, crosses no mount."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from itertools import count, islice
from typing import NamedTuple

from holdfast.adapters.walking.walk import Visit as Visit
from holdfast.adapters.walking.walk import link_text as link_text
from holdfast.adapters.walking.walk import opened as opened
from holdfast.adapters.walking.walk import opened_file as opened_file
from holdfast.adapters.walking.walk import unless_moved as unless_moved
from holdfast.adapters.walking.walk import walk as walk

COUNT_MAX = 10_000
SHOWN_CHARS = 200
NAMES, NAMED_MAX = 8, 1000  # names that a count shows, and of how many it chooses them
_DEPTH_MAX = 32  # deeper directories are moved up first, so that handles and stack stay bounded


class CrossesMount(Exception):
    """Another file system is mounted inside the tree."""


def shown(path: str) -> str:
    """For texts, which are UTF-8: a program may give a file any bytes as a name, and any depth."""
    return path.encode("utf-8", "replace").decode()[:SHOWN_CHARS]


def made(name: str, above: int, mode: int) -> int:
    """Open it; if missing, create it durably with exactly this mode. An existing one is left unchanged."""
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        return opened(name, above)
    handle = opened(name, above)
    os.fchmod(handle, mode)
    os.fsync(above)
    return handle


def exists(above: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def is_directory(above: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)


def directories(handle: int) -> list[str]:
    """Names of those directly inside; what vanishes meanwhile is left out."""
    with os.scandir(handle) as found:
        return sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))


def here(handle: int) -> list[os.stat_result]:
    """What lies directly inside; what vanishes meanwhile is left out."""
    with os.scandir(handle) as found:
        return [about for entry in found if (about := _about(entry)) is not None]


def is_link(above: int, name: str) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)


class Count(NamedTuple):
    files: int  # everything but directories
    size_bytes: int
    entries: int  # of any kind
    names: tuple[str, ...] = ()  # the first ones directly inside, sorted
    owner: str = ""  # `UID:GID` of the directory itself


def count_entries(handle: int) -> Count:
    """Stops at COUNT_MAX entries. What vanishes meanwhile counts as an entry: the directory was not empty."""
    files = entries = size_bytes = 0
    waiting = [os.dup(handle)]
    try:
        while waiting and entries < COUNT_MAX:
            here = waiting.pop()
            try:
                with os.scandir(here) as found:
                    for entry in found:
                        entries += 1
                        about = _about(entry)
                        if about is None:
                            continue
                        files += not stat.S_ISDIR(about.st_mode)
                        size_bytes += about.st_size if stat.S_ISREG(about.st_mode) else 0
                        if entries >= COUNT_MAX:
                            break
                        if stat.S_ISDIR(about.st_mode) and len(waiting) < 256:
                            with suppress(FileNotFoundError, NotADirectoryError):  # a program replaced it meanwhile
                                waiting.append(opened(entry.name, here))
            finally:
                os.close(here)
    finally:
        for left in waiting:
            os.close(left)
    return Count(files, size_bytes, entries)


def measured(handle: int) -> tuple[int, int]:
    """Bytes of all files below it and their number, however many there are."""
    sizes = [visit.about.st_size for visit in walk(handle) if stat.S_ISREG(visit.about.st_mode)]
    return sum(sizes), len(sizes)


def count_at(root: int, path: Sequence[str]) -> Count | None:
    """At a path below `root`, in which no part is a symlink; a file is one entry. None if nothing is there."""
    above = os.dup(root)
    try:
        for name in path[:-1]:
            below = opened(name, above)
            os.close(above)
            above = below
        if not is_directory(above, path[-1]):
            about = os.stat(path[-1], dir_fd=above, follow_symlinks=False)
            return Count(1, about.st_size, 1, (path[-1],))
        handle = opened(path[-1], above)
    except FileNotFoundError:
        return None
    finally:
        os.close(above)
    try:
        with os.scandir(handle) as found:
            names = sorted(entry.name for entry in islice(found, NAMED_MAX))[:NAMES]
        about = os.fstat(handle)
        return count_entries(handle)._replace(names=tuple(map(shown, names)), owner=f"{about.st_uid}:{about.st_gid}")
    finally:
        os.close(handle)


def empty_out(handle: int) -> None:
    """Delete everything below this directory. May be interrupted anywhere and repeated."""
    device = os.fstat(handle).st_dev
    numbers = count()
    while _sweep(handle, device, 0, handle, numbers):
        pass


def _sweep(handle: int, device: int, depth: int, top: int, numbers: "count[int]") -> bool:
    """True if a directory that is too deep was moved to the top, so that another round is needed."""
    again = False
    with os.scandir(handle) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_directory in entries:
        if not is_directory:
            os.unlink(name, dir_fd=handle)
        elif depth >= _DEPTH_MAX:
            _move_up(name, handle, top, numbers)
            again = True
        else:
            again |= _remove(name, handle, device, depth, top, numbers)
    return again


def _remove(name: str, above: int, device: int, depth: int, top: int, numbers: "count[int]") -> bool:
    inner = opened(name, above)
    try:
        if os.fstat(inner).st_dev != device:
            raise CrossesMount(name)
        again = _sweep(inner, device, depth + 1, top, numbers)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=above)
    return again


def _move_up(name: str, here: int, top: int, numbers: "count[int]") -> None:
    while True:
        new = f".deep-{next(numbers)}"
        try:
            os.stat(new, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, new, src_dir_fd=here, dst_dir_fd=top)
            return


def _about(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
