"""A fleet directory on a POSIX file system. Opens everything relative to the root; follows no symlink."""

import errno
import os
import stat
from collections.abc import Mapping
from types import TracebackType

from holdfast.errors import Invalid
from holdfast.ports.fleet_directory import (
    ENTRIES_MAX,
    Entry,
    Kind,
    Unreadable,
    absent,
    overflowing,
    refused,
    too_large,
)

# NONBLOCK: opening a pipe must not wait for its writer. NOCTTY: a terminal must not become our controlling terminal.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # the path that the operator typed may be a symlink

_NO_RIGHT = ("cannot be opened: permission denied", "give yourself read access (`chmod u+r FILE`)")
_REFUSALS: Mapping[int, tuple[str, str]] = {
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.ENAMETOOLONG: ("has a name that is too long", "give it a shorter name"),
    errno.EMFILE: ("cannot be opened: too many files are open", "raise the limit (ulimit -n), then try again"),
}
_KINDS: Mapping[int, Kind] = {errno.ELOOP: "symlink", errno.ENXIO: "other", errno.ENODEV: "other"}


class PosixFleetDirectory:
    """Keeps the root open until closed, so that a renamed directory cannot replace it during a read."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._handles = {"": _open_root(path)}

    def __enter__(self) -> "PosixFleetDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, trouble: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        while self._handles:
            os.close(self._handles.popitem()[1])

    def entries(self, directory: str = "") -> tuple[Entry, ...]:
        prefix = directory and directory + "/"
        found: list[Entry] = []
        try:
            with os.scandir(self._handle(directory)) as listing:
                for item in listing:
                    found.append(_entry(item, prefix))
                    if len(found) > ENTRIES_MAX:
                        raise overflowing(directory)
        except OSError as trouble:
            raise _unreadable(directory, trouble) from trouble
        return tuple(sorted(found))

    def read(self, path: str, bytes_max: int) -> bytes:
        directory, _, name = path.rpartition("/")
        try:
            handle = os.open(_plain(name, path), _FILE, dir_fd=self._handle(directory))
        except OSError as trouble:
            raise _unreadable(path, trouble) from trouble
        try:
            return _read(handle, path, bytes_max)
        except OSError as trouble:
            raise _unreadable(path, trouble) from trouble
        finally:
            os.close(handle)

    def _handle(self, directory: str) -> int:
        handle = self._handles.get(directory)
        if handle is None:
            above, _, name = directory.rpartition("/")
            try:
                handle = os.open(_plain(name, directory), _DIRECTORY, dir_fd=self._handle(above))
            except NotADirectoryError as trouble:  # O_NOFOLLOW with O_DIRECTORY reports the same for a symlink
                raise Unreadable(
                    directory,
                    "is not a directory, or is a symbolic link to one; symbolic links are not followed",
                    remedy="replace it with a real directory",
                ) from trouble
            self._handles[directory] = handle
        return handle


def _open_root(path: str) -> int:
    try:
        return os.open(path, _ROOT)
    except NotADirectoryError:
        raise Invalid(
            f"{_printable(path)} is not a directory, so it cannot be a fleet directory",
            remedy="give the directory that contains fleet.toml (--fleet DIR)",
            code="fleet_missing",
        ) from None
    except (FileNotFoundError, ValueError):
        raise _no_fleet(path) from None
    except OSError as trouble:
        raise _unreadable("", trouble) from trouble


def _no_fleet(path: str) -> Invalid:
    from shlex import quote

    return Invalid(
        f"the fleet directory {_printable(path)} does not exist",
        remedy=f"check the path (--fleet DIR); to create a new fleet there: holdfast init {quote(path)}",
        code="fleet_missing",
    )


def _printable(path: str) -> str:
    return path if path.isprintable() else ascii(path)


def _plain(name: str, path: str) -> str:
    """Listings never contain these names; a caller's mistake must not lead outside the directory."""
    if name in ("", ".", "..") or "\0" in name:
        raise Unreadable(path, "is not a path inside the fleet directory", remedy="remove the . and .. parts")
    return name


def _entry(item: "os.DirEntry[str]", prefix: str) -> Entry:
    if item.is_file(follow_symlinks=False):
        return Entry(prefix + item.name, "file", _size_bytes(item))
    if item.is_symlink():
        return Entry(prefix + item.name, "symlink")
    return Entry(prefix + item.name, "directory" if item.is_dir(follow_symlinks=False) else "other")


def _size_bytes(item: "os.DirEntry[str]") -> int:
    try:
        return item.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0  # deleted since the listing; reading it reports the error


def _read(handle: int, path: str, bytes_max: int) -> bytes:
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode):
        raise refused(path, "directory" if stat.S_ISDIR(facts.st_mode) else "other")
    size = facts.st_size
    if size > bytes_max:
        raise too_large(path, size, bytes_max)
    content = os.read(handle, size + 1)
    while len(content) < size and (more := os.read(handle, size + 1 - len(content))):
        content += more
    if len(content) != size:
        raise Unreadable(path, "changed while it was being read", remedy="save it, then run the command again")
    return content


def _unreadable(path: str, trouble: OSError) -> Unreadable:
    number = trouble.errno or 0
    if number in _KINDS:
        return refused(path, _KINDS[number])
    if number == errno.ENOENT:
        return absent(path)
    what, remedy = _REFUSALS.get(
        number, (f"cannot be read: {os.strerror(number)}", "check the disk, then run the command again")
    )
    return Unreadable(path, what, remedy=remedy)
