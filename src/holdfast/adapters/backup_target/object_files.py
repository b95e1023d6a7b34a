"""Objects as files below a directory handle: created once, whole and durable, or not at all. Blocking.

Every step is relative to the handle of the root and follows no link, so that what is above it may be unmounted or
renamed meanwhile. Errors of the system pass through as they are.
"""

import ctypes
import errno
import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX, BackupKey
from holdfast.ports.backup_target import StoredObject

AT_ONCE_MAX = 16  # more than are ever written at once into one folder
TEMPORARY = ".incoming-"
TEMPORARY_AGE_S = 3600.0  # longer than any write takes

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
_NOREPLACE = 1
# File systems without such files, without hard links (FAT), or without a rename that replaces nothing.
_UNABLE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EMLINK)

Content = bytes | bytearray | memoryview


class Differs(Exception):
    """Other bytes lie under this name."""


def put(root: int, key: BackupKey, content: Content) -> bool:
    """Durable on return. False: it was there already, with these bytes."""
    *above, name = key.text.split("/")
    with _folder(root, above, make=True) as folder:
        found = _content(folder, name)
        if found is None:
            is_young = _has_few(folder)
            if store(folder, name, content):
                if is_young:
                    _flush_names(root, above, folder, name)
                return True
            found = _content(folder, name)
        if found != content:
            raise Differs
        _flush(root, above)  # its writer may have been killed before this
        return False


def read(root: int, key: BackupKey, first: int = 0, at_most: int = OBJECT_BYTES_MAX) -> bytes | None:
    *above, name = key.text.split("/")
    try:
        with _folder(root, above) as folder:
            return _content(folder, name, first, at_most)
    except FileNotFoundError:
        return None


def has(root: int, keys: Collection[str]) -> set[str]:
    """Looks into each folder once."""
    by_folder: dict[str, dict[str, str]] = {}
    for key in keys:
        above, _, name = backup_key.parse(key).text.rpartition("/")
        by_folder.setdefault(above, {})[name] = key
    found: set[str] = set()
    for above, names in by_folder.items():
        with suppress(FileNotFoundError), _folder(root, above.split("/")) as folder:
            found |= {key for name, key in names.items() if _size(folder, name) is not None}
    return found


def listed(root: int, prefix: str) -> list[StoredObject]:
    """Sorted by key. Temporary files of killed writers are removed on the way."""
    found: list[StoredObject] = []
    above = [part for part in prefix.split("/") if part]
    with suppress(FileNotFoundError), _folder(root, above) as folder:
        found += _walked(folder, prefix.rstrip("/"))
    return sorted(found, key=lambda one: one.key)


def remove(root: int, key: BackupKey) -> int:
    """How many bytes it had, 0 if it was not there. On return it stays away after a power cut."""
    *above, name = key.text.split("/")
    size = 0
    with suppress(FileNotFoundError), _folder(root, above) as folder:
        size = _size(folder, name) or 0
        os.unlink(name, dir_fd=folder)
        os.fsync(folder)
    return size


# ---- one file


def store(folder: int, name: str, content: Content) -> bool:
    """Whole and durable under this name, or not there. False: the name is taken."""
    try:
        with _unnamed(folder) as handle:
            _write(handle, content)
            return _named(folder, name, f"/proc/self/fd/{handle}", follow=True)
    except OSError as trouble:
        if trouble.errno not in _UNABLE:
            raise
    temporary = f"{TEMPORARY}{os.urandom(8).hex()}"
    handle = os.open(temporary, _CREATE, 0o600, dir_fd=folder)
    try:
        try:
            _write(handle, content)
        finally:
            os.close(handle)
        return _named(folder, name, temporary, follow=False)
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


@contextmanager
def _unnamed(folder: int) -> Iterator[int]:
    """A file that vanishes with this process, until it gets a name."""
    handle = os.open(".", _UNNAMED, 0o600, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _write(handle: int, content: Content) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]
    os.fsync(handle)


def _named(folder: int, name: str, source: str, *, follow: bool) -> bool:
    try:
        _give_name(folder, name, source, follow)
    except FileExistsError:
        return False
    try:
        os.fsync(folder)
    except BaseException:  # a flush that failed is not repeated (R06): the next attempt writes a new file
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return True


def _give_name(folder: int, name: str, source: str, follow: bool) -> None:
    """Replaces nothing. A hard link; where the file system has none, a rename of the temporary file."""
    try:
        os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=follow)
        return
    except OSError as trouble:
        if follow or trouble.errno not in _UNABLE:
            raise
    done = ctypes.CDLL(None, use_errno=True).renameat2(folder, source.encode(), folder, name.encode(), _NOREPLACE)
    number = ctypes.get_errno()
    if done == 0:
        return
    if number not in _UNABLE:
        raise OSError(number, os.strerror(number), name)
    if _size(folder, name) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    os.rename(source, name, src_dir_fd=folder, dst_dir_fd=folder)


def _content(folder: int, name: str, first: int = 0, at_most: int = OBJECT_BYTES_MAX) -> bytes | None:
    try:
        handle = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        wanted = max(0, min(about.st_size - first, at_most))
        content = bytearray()
        while len(content) < wanted and (more := os.pread(handle, wanted - len(content), first + len(content))):
            content += more
        return bytes(content)
    finally:
        os.close(handle)


def _size(folder: int, name: str) -> int | None:
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return about.st_size if stat.S_ISREG(about.st_mode) else None


# ---- folders


@contextmanager
def _folder(root: int, parts: list[str], *, make: bool = False) -> Iterator[int]:
    """Below the root, on its file system and through no link."""
    device = os.fstat(root).st_dev
    here = os.dup(root)
    try:
        for part in parts:
            below = _entered(here, part, make)
            os.close(here)
            here = below
            if os.fstat(here).st_dev != device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), part)
        yield here
    finally:
        os.close(here)


def _entered(here: int, part: str, make: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=here)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=here)
    return os.open(part, _DIRECTORY, dir_fd=here)


def _has_few(folder: int) -> bool:
    with os.scandir(folder) as entries:
        return sum(1 for _ in islice(entries, AT_ONCE_MAX)) < AT_ONCE_MAX


def _flush_names(root: int, above: list[str], folder: int, name: str) -> None:
    """With the first objects of a folder the names of the folders become durable. Not with the first one alone: of
    several that are written at once, any may be the first to return."""
    try:
        _flush(root, above)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def _flush(root: int, above: list[str]) -> None:
    for depth in range(len(above), -1, -1):
        with _folder(root, above[:depth]) as folder:
            os.fsync(folder)


def _walked(folder: int, above: str) -> Iterator[StoredObject]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        path = f"{above}/{name}" if above else name
        if name.startswith(TEMPORARY):
            _sweep(folder, name)
        elif backup_key.is_key(path):
            size = _size(folder, name)
            if size is not None:
                yield StoredObject(path, size)
        elif backup_key.is_prefix(f"{path}/"):
            try:
                below = os.open(name, _DIRECTORY, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                if os.fstat(below).st_dev == os.fstat(folder).st_dev:
                    yield from _walked(below, path)
            finally:
                os.close(below)


def _sweep(folder: int, name: str) -> None:
    with suppress(OSError):
        if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > TEMPORARY_AGE_S:
            os.unlink(name, dir_fd=folder)
