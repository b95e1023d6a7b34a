"""A tree of files below a directory handle: counted, or taken away. Follows no link, crosses no mount."""

import os
import stat
from itertools import count

COUNT_MAX = 10_000
_DEPTH_MAX = 32  # deeper directories are moved up first: neither handles nor the stack grow with the tree
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class CrossesMount(Exception):
    """Another file system begins inside the tree."""


def opened(name: str, above: int) -> int:
    return os.open(name, _OPEN, dir_fd=above)


def count_entries(handle: int) -> tuple[int, int]:
    """How many entries of any kind, and their bytes; stops counting at COUNT_MAX."""
    entries = size_bytes = 0
    waiting = [os.dup(handle)]
    try:
        while waiting and entries < COUNT_MAX:
            here = waiting.pop()
            try:
                with os.scandir(here) as found:
                    for entry in found:
                        about = entry.stat(follow_symlinks=False)
                        entries += 1
                        size_bytes += about.st_size if stat.S_ISREG(about.st_mode) else 0
                        if entries >= COUNT_MAX:
                            break
                        if stat.S_ISDIR(about.st_mode) and len(waiting) < 256:
                            waiting.append(opened(entry.name, here))
            finally:
                os.close(here)
    finally:
        for left in waiting:
            os.close(left)
    return entries, size_bytes


def empty_out(handle: int) -> None:
    """Everything below this directory, for good. May be cut short anywhere and begun again."""
    device = os.fstat(handle).st_dev
    numbers = count()
    while _sweep(handle, device, 0, handle, numbers):
        pass


def _sweep(handle: int, device: int, depth: int, top: int, numbers: "count[int]") -> bool:
    """True if something too deep was moved to the top, so that another round is needed."""
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
