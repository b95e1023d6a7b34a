"""Walk over a tree of files below a directory handle. Follows no symlink, crosses no mount, changes nothing."""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

T = TypeVar("T")


def opened(name: str, above: int) -> int:
    return os.open(name, _OPEN, dir_fd=above)


def opened_file(name: str, above: int) -> int:
    """Only a file is opened: a container may have put a device in its place, and to open that has effects."""
    found = os.open(name, _LOOK, dir_fd=above)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise replaced(name)
        return os.open(f"/proc/self/fd/{found}", _READ)
    finally:
        os.close(found)


def link_text(name: str, above: int) -> str:
    try:
        return os.readlink(name, dir_fd=above)
    except OSError as trouble:
        if trouble.errno != errno.EINVAL:  # it is no link any more
            raise
        raise replaced(name) from trouble


def replaced(name: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "it was replaced while it was read", name)


class Visit(NamedTuple):
    """`entry`: not descended into (also a directory where another file system is mounted). `enter`: the directory
    `name` is now `here`. `leave`: all of `here` was visited. `about` describes the entry, or the directory itself."""

    kind: Literal["entry", "enter", "leave"]
    here: int
    name: str
    about: os.stat_result


class _Level(NamedTuple):
    name: str
    about: os.stat_result
    inner: list[str]  # directories not visited yet


def walk(
    top: int, without: frozenset[str] = frozenset(), enters: Callable[[str], bool] | None = None
) -> Iterator[Visit]:
    """Everything below `top` at any depth, with two handles: ".." leads up, and is verified. By the bytes of the names,
    in each directory the directories last. What vanishes meanwhile is left out. `without`: names at the top. `enters`:
    whether the directory at this path is visited."""
    here = os.dup(top)
    above: list[_Level] = []
    try:
        level = yield from _arrive(here, "", without)
        while True:
            if level.inner:
                name = level.inner.pop()
                if enters is not None and not enters(_path([*above, level], name)):
                    continue
                try:
                    below = opened(name, here)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                os.close(here)
                here = below
                above.append(level)
                yield Visit("enter", here, name, os.fstat(here))
                level = yield from _arrive(here, name)
                continue
            yield Visit("leave", here, level.name, level.about)
            if not above:
                return
            level = above.pop()
            below, here = here, opened("..", here)
            os.close(below)
            if not os.path.samestat(os.fstat(here), level.about):
                raise OSError(errno.ESTALE, "a directory was moved while it was read", level.name)
    finally:
        os.close(here)


def _path(levels: Sequence[_Level], name: str) -> str:
    return "/".join((*(level.name for level in levels[1:]), name))


def unless_moved(walked: Iterator[T]) -> Iterator[T]:
    """For a measure: it ends where a directory is moved while it is read."""
    try:
        yield from walked
    except OSError as trouble:
        if trouble.errno != errno.ESTALE:
            raise


def _arrive(here: int, name: str, without: frozenset[str] = frozenset()) -> Generator[Visit, None, _Level]:
    level = _Level(name, os.fstat(here), [])
    for inner in sorted(os.listdir(here), key=os.fsencode):
        if inner in without:
            continue
        try:
            about = os.stat(inner, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(about.st_mode) and about.st_dev == level.about.st_dev:
            level.inner.append(inner)
        else:
            yield Visit("entry", here, inner, about)
    level.inner.reverse()
    return level
