"""A new directory with all its files on a POSIX file system, or nothing of it."""

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

Put = Callable[[str, bytes], None]
Make = Callable[[str], None]


def make(path: str, files: Mapping[str, bytes], name: str, make: Make, put: Put) -> str:
    """Write under the hidden `name`, then rename: beside `path`, or in it if it is a directory already. That one may be
    a mount point or a working directory, so it is not replaced. Returns the directory whose names are to be flushed."""
    is_there = os.path.isdir(path)
    if is_there and os.listdir(path):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
    above = path if is_there else os.path.dirname(path) or "."
    missing, staged = _missing(above), os.path.join(above, name)
    try:
        make(above)
        make(staged)
        for file, content in files.items():
            target = os.path.join(staged, file)
            make(os.path.dirname(target))
            put(target, content)
        if is_there:
            _move(staged, path)
        else:
            os.rename(staged, path)
    except BaseException:
        _clear(staged, files, missing)
        raise
    return above


def _missing(path: str) -> list[str]:
    """The directories that do not exist yet, the innermost first."""
    found = []
    while path and not os.path.lexists(path):
        found.append(path)
        path = os.path.dirname(path)
    return found


def _move(staged: str, path: str) -> None:
    """Directories first, then files; back again if one cannot be moved."""
    moved: list[str] = []
    try:
        for child in sorted(os.listdir(staged), key=lambda child: (not os.path.isdir(f"{staged}/{child}"), child)):
            os.rename(os.path.join(staged, child), os.path.join(path, child))
            moved.append(child)
        os.rmdir(staged)
    except BaseException:
        for child in moved:
            with suppress(OSError):
                os.rename(os.path.join(path, child), os.path.join(staged, child))
        raise


def _clear(staged: str, files: Iterable[str], missing: Iterable[str]) -> None:
    """Remove exactly what was made."""
    folders = {staged}
    for file in files:
        with suppress(OSError):
            os.unlink(os.path.join(staged, file))
        while file := os.path.dirname(file):
            folders.add(os.path.join(staged, file))
    for folder in (*sorted(folders, reverse=True), *missing):
        with suppress(OSError):  # another process has put something there
            os.rmdir(folder)
