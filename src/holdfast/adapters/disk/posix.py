"""Our own files on a POSIX file system. Never exposes a partial file; never follows a final symlink."""

import errno
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress

from holdfast.adapters.disk import tree
from holdfast.errors import Failed, HoldfastError, Invalid

# NONBLOCK: opening a pipe must not wait for its writer. NOCTTY: a terminal must not become our controlling terminal.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # parent directories may be symlinks: the operator's choice

_STRAY = (".holdfast-", ".tmp")
STRAY_AGE_S = 3600

_CHECK_DISK = "check the disk and its mount options, then repeat the command"
_REMEDIES: Mapping[int, str] = {
    errno.EROFS: "remount that file system read-write, then repeat the command",
    errno.EACCES: "run this as the owner of that directory, or give this user access to it",
    errno.EPERM: "run this as the owner of that directory, or give this user access to it",
    errno.ENOENT: "create the directory first, or check the path",
    errno.ENOTDIR: "check the path: one of its directories is a file",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then repeat the command",
}


class PosixDisk:
    def read(self, path: str, at_most: int) -> bytes | None:
        _checked(path)
        try:
            handle = os.open(path, _READ)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as trouble:
            raise _unreadable(path, trouble) from trouble
        try:
            return _read(handle, path, at_most)
        except OSError as trouble:
            raise _unreadable(path, trouble) from trouble
        finally:
            os.close(handle)

    def replace(self, path: str, content: bytes, mode: int = 0o600) -> None:
        _checked(path)
        above, name = os.path.split(path)
        try:
            directory = os.open(above or ".", _DIRECTORY)  # one handle, so that a renamed directory cannot interfere
            try:
                _check_target(directory, name, path)
                _replace(directory, name, content, mode)
                _flush_name(directory, path)
                _sweep(directory)
            finally:
                os.close(directory)
        except OSError as trouble:
            raise _unwritable(path, trouble) from trouble

    def remove(self, path: str) -> None:
        above, name = os.path.split(_checked(path))
        try:
            directory = os.open(above or ".", _DIRECTORY)
            try:
                os.unlink(name, dir_fd=directory)
                os.fsync(directory)
            finally:
                os.close(directory)
        except FileNotFoundError:
            return
        except OSError as trouble:
            raise _unremovable(path, trouble) from trouble

    def make_directory(self, path: str, mode: int = 0o700) -> None:
        """Creates missing parents with the same mode. An existing directory is left unchanged."""
        try:
            _make_directory(_checked(path.rstrip("/") or "/"), mode)
        except OSError as trouble:
            raise _unwritable(path, trouble) from trouble

    def make_tree(self, path: str, files: Mapping[str, bytes], mode: int = 0o700, file_mode: int = 0o600) -> None:
        name = f"{_STRAY[0]}{os.urandom(8).hex()}{_STRAY[1]}"
        try:
            above = tree.make(
                _checked(path),
                files,
                name,
                lambda directory: _make_directory(directory, mode),
                lambda file, content: self.replace(file, content, file_mode),
            )
            handle = os.open(above, _DIRECTORY)
            try:
                _flush_name(handle, path)
            finally:
                os.close(handle)
        except OSError as trouble:
            raise _unwritable(path, trouble) from trouble


def _checked(path: str) -> str:
    if not path or "\0" in path or (path.endswith("/") and path != "/"):
        raise Invalid(f"{path!r} is not a file path", remedy="check the path")
    return path


def _read(handle: int, path: str, at_most: int) -> bytes:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise _not_a_file(path)
    content = b""
    while len(content) <= at_most and (more := os.read(handle, at_most + 1 - len(content))):
        content += more
    if len(content) > at_most:
        raise Invalid(
            f"{path} is longer than the allowed {at_most:,} bytes",
            remedy="check that this is the right file; if Holdfast wrote it, restore it from a backup",
            code="file_too_long",
        )
    return content


def _check_target(directory: int, name: str, path: str) -> None:
    """A rename would replace a device or a symlink with a regular file, which is never intended."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise _not_a_file(path)


def _replace(directory: int, name: str, content: bytes, mode: int) -> None:
    """Write under a temporary name until complete and flushed (R02); on any error that name is removed.

    A failed flush is never repeated on the same file: a second attempt starts with a new file (R06).
    """
    temporary = f"{_STRAY[0]}{os.urandom(8).hex()}{_STRAY[1]}"
    handle = os.open(temporary, _CREATE, 0o600, dir_fd=directory)
    try:
        try:
            os.fchmod(handle, mode)  # open() applies the umask
            _write(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        _remove(directory, temporary)
        raise


def _sweep(directory: int) -> None:
    """Remove temporary files of killed processes; an hour is longer than any of our writes takes."""
    with suppress(OSError), os.scandir(directory) as found:
        for entry in found:
            ours = entry.name.startswith(_STRAY[0]) and entry.name.endswith(_STRAY[1])
            if ours and time.time() - entry.stat(follow_symlinks=False).st_mtime > STRAY_AGE_S:
                _remove(directory, entry.name)


def _flush_name(directory: int, path: str) -> None:
    try:
        os.fsync(directory)
    except OSError as trouble:  # too late to undo, too early to report success (R06)
        raise Failed(
            f"{path} has the new content, but a power cut may lose it: {trouble.strerror}",
            remedy=_CHECK_DISK,
            code="disk_failed",
        ) from trouble


def _write(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        return  # the disk is failing; the error being handled says more than this one


def _make_directory(path: str, mode: int) -> None:
    above = os.path.dirname(path)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return
    except FileNotFoundError:
        if above in ("", path):
            raise
        _make_directory(above, mode)
        os.mkdir(path, mode)
    made = os.open(path, _DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(made, mode)
    finally:
        os.close(made)
    _flush_directory(above or ".")


def _flush_directory(path: str) -> None:
    handle = os.open(path, _DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_a_file(path: str) -> Invalid:
    return Invalid(
        f"{path} is not a regular file; symlinks and devices are neither read nor replaced",
        remedy="give the path of a regular file, or move this one away",
        code="not_a_file",
    )


def _unreadable(path: str, trouble: OSError) -> HoldfastError:
    if trouble.errno in (errno.ELOOP, errno.ENXIO):  # a link under O_NOFOLLOW; a socket
        return _not_a_file(path)
    return Failed(f"cannot read {path}: {trouble.strerror}", remedy=_remedy(trouble), code="disk_failed")


def _unwritable(path: str, trouble: OSError) -> Failed:
    if trouble.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed(
            f"no space is left for {path} ({trouble.strerror}); its old content is unchanged",
            remedy=f"free space on the file system of {path}, then repeat the command",
            code="no_space",
        )
    return Failed(f"cannot write {path}: {trouble.strerror}", remedy=_remedy(trouble), code="disk_failed")


def _unremovable(path: str, trouble: OSError) -> HoldfastError:
    if trouble.errno in (errno.EISDIR, errno.EPERM) and os.path.isdir(path):
        return _not_a_file(path)
    return Failed(f"cannot remove {path}: {trouble.strerror}", remedy=_remedy(trouble), code="disk_failed")


def _remedy(trouble: OSError) -> str:
    return _REMEDIES.get(trouble.errno or 0, _CHECK_DISK)
