"""Values of needs below the run directory, which is memory-backed on a real machine.

A container has the directory of one need mounted. In it each field is a link through `..data`, and `..data` leads to
the directory of one generation: replacing that one link replaces all values at once. Only root gets to the directories;
the files are world-readable, because the image decides the user inside a container.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.errors import Failed
from holdfast.ports.need_files import NeedKey

DATA = "..data"
_FRESH = "..fresh"
_OPEN = 0o755  # beneath a directory that only root may enter
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryNeedFiles:
    def __init__(self, root: str) -> None:
        self._root = root

    def put(self, key: NeedKey, values: Mapping[str, str]) -> None:
        home = self.directory(key)
        try:
            old = self._linked(home)
            if old and self._holds(os.path.join(home, old), values):
                return
            new = "..b" if old == "..a" else "..a"
            _remove(os.path.join(home, new))
            self._fill(os.path.join(home, new), values)
            self._link(home, new, DATA)
            for field in values:
                self._link(home, f"{DATA}/{field}", field)
            for left in set(os.listdir(home)) - set(values) - {DATA, new}:
                _remove(os.path.join(home, left))
        except OSError as trouble:
            raise _unwritable(home, trouble) from trouble

    def directory(self, key: NeedKey) -> str:
        home = self._home(key)
        try:
            os.makedirs(os.path.dirname(home), 0o700, exist_ok=True)
            for above in (self._root, os.path.dirname(home)):
                if os.path.islink(above) or os.stat(above).st_uid != os.geteuid():
                    raise PermissionError(1, "it is a symbolic link or belongs to another user", above)
                os.chmod(above, 0o700)
            with suppress(FileExistsError):
                os.mkdir(home)
            os.chmod(home, _OPEN)
        except OSError as trouble:
            raise _unwritable(home, trouble) from trouble
        return home

    def has(self, key: NeedKey) -> bool:
        return bool(self._linked(self._home(key)))

    def forget(self, key: NeedKey) -> None:
        """What is mounted stays as an empty directory until its container is gone."""
        home = self._home(key)
        try:
            for left in os.listdir(home):
                _remove(os.path.join(home, left))
            os.rmdir(home)
            os.rmdir(os.path.dirname(home))
        except FileNotFoundError:
            return
        except OSError as trouble:
            if not os.path.isdir(home) and os.path.isdir(os.path.dirname(home)):
                return  # other needs of the service are there
            raise _unwritable(home, trouble) from trouble

    def known(self) -> Sequence[NeedKey]:
        try:
            return sorted((s, n) for s in os.listdir(self._root) for n in os.listdir(os.path.join(self._root, s)))
        except FileNotFoundError:
            return []
        except OSError as trouble:
            raise _unwritable(self._root, trouble) from trouble

    def _home(self, key: NeedKey) -> str:
        return os.path.join(self._root, *map(_plain, key))

    @staticmethod
    def _linked(home: str) -> str:
        try:
            return os.readlink(os.path.join(home, DATA))
        except OSError:
            return ""

    @staticmethod
    def _holds(folder: str, values: Mapping[str, str]) -> bool:
        try:
            if set(os.listdir(folder)) != set(values):
                return False
            return all(_read(os.path.join(folder, field)) == value.encode() for field, value in values.items())
        except OSError:
            return False

    @staticmethod
    def _fill(folder: str, values: Mapping[str, str]) -> None:
        os.mkdir(folder)
        os.chmod(folder, _OPEN)
        for field, value in values.items():
            handle = os.open(os.path.join(folder, _plain(field)), _MAKE, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(value.encode())
                os.fchmod(file.fileno(), 0o444)

    @staticmethod
    def _link(home: str, to: str, name: str) -> None:
        fresh = os.path.join(home, _FRESH)
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(to, fresh)
        os.replace(fresh, os.path.join(home, name))


def _plain(name: str) -> str:
    """Names come from verified revisions and checked answers; a path here is a programming error."""
    assert name and "/" not in name and "\0" not in name and not name.startswith("."), "a name, not a path"
    return name


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _remove(path: str) -> None:
    """A link, or a directory of plain files that this module made."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        for file in os.listdir(path):
            os.unlink(os.path.join(path, file))
        os.rmdir(path)


def _unwritable(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"cannot write values of needs to {path}: {trouble.strerror or trouble}",
        remedy="check the run directory (df, mount), or choose another: holdfast agent run --run-dir DIR",
        code="needs_unwritable",
    )
