"""Opened secrets as files below the run directory, which is memory-backed on a real machine.

The directories are accessible to their owner only. The files are world-readable, because the image decides the user
inside a container, and a bind mount of the file is the only access.
"""

import os
from collections.abc import Mapping, Sequence

from holdfast.errors import Failed

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectorySecretFiles:
    def __init__(self, root: str) -> None:
        self._root = root

    def put(self, container: str, files: Mapping[str, bytes]) -> Mapping[str, str]:
        """An unchanged file keeps its inode: a running container has exactly that inode mounted."""
        home = self._home(container)
        try:
            self._make_home(home)
            for file in set(os.listdir(home)) - files.keys():
                os.unlink(os.path.join(home, file))
            for file, content in files.items():
                _write(os.path.join(home, _plain(file)), content)
        except OSError as trouble:
            raise _unwritable(home, trouble) from trouble
        return {file: os.path.join(home, file) for file in files}

    def _make_home(self, home: str) -> None:
        os.makedirs(self._root, 0o700, exist_ok=True)
        for directory in (self._root, home):
            if directory == home and not os.path.lexists(home):
                os.mkdir(home, 0o700)
            if os.path.islink(directory) or os.stat(directory).st_uid != os.geteuid():
                raise PermissionError(1, "it is a symbolic link or belongs to another user", directory)
            os.chmod(directory, 0o700)

    def forget(self, container: str) -> None:
        """Deletes files only, not subdirectories: those are not ours."""
        home = self._home(container)
        try:
            if os.path.islink(home):
                raise PermissionError(1, "it is a symbolic link", home)
            for file in os.listdir(home):
                os.unlink(os.path.join(home, file))
            os.rmdir(home)
        except FileNotFoundError:
            return
        except OSError as trouble:
            raise _unwritable(home, trouble) from trouble

    def containers(self) -> Sequence[str]:
        try:
            return sorted(os.listdir(self._root))
        except FileNotFoundError:
            return []
        except OSError as trouble:
            raise _unwritable(self._root, trouble) from trouble

    def _home(self, container: str) -> str:
        return os.path.join(self._root, _plain(container))


def _plain(name: str) -> str:
    """Names come from verified revisions; a path here is a programming error."""
    assert name and "/" not in name and "\0" not in name and name not in (".", ".."), "a name, not a path"
    return name


def _write(path: str, content: bytes) -> None:
    if _holds(path, content):
        return
    home, name = os.path.split(path)
    beside = os.path.join(home, "." + name)  # a secret's file name never starts with a dot
    if os.path.lexists(beside):
        os.unlink(beside)
    handle = os.open(beside, _MAKE, 0o600)
    try:
        at = 0
        while at < len(content):
            at += os.write(handle, content[at:])
        os.fchmod(handle, 0o444)
    finally:
        os.close(handle)
    os.replace(beside, path)


def _holds(path: str, content: bytes) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as file:
        return file.read(len(content) + 1) == content


def _unwritable(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"cannot write secrets to {path}: {trouble.strerror or trouble}",
        remedy="check the run directory (df, mount), or choose another: holdfast agent run --run-dir DIR",
        code="secrets_unwritable",
    )
