"""The hub's store: objects as files below a directory of its own state, which this program alone uses. Blocking. A node
has such a directory for moves."""

import errno
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.adapters.backup_target import object_files, troubles
from holdfast.errors import Conflict, Failed, HoldfastError
from holdfast.model.backup_key import BackupKey
from holdfast.ports.backup_objects import StoreRoom
from holdfast.ports.backup_target import StoredObject

T = TypeVar("T")

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StoreDirectory:
    """`called` is what messages call it."""

    def __init__(self, path: str, called: str = "the hub's store") -> None:
        self._path = path
        self._called = called

    def put(self, key: BackupKey, content: object_files.Content) -> bool:
        try:
            return self._in_root(object_files.put, key, content)
        except object_files.Differs:
            raise Conflict(
                f"other bytes lie under {key.text} in {self._called}: they are damaged, and stay as they are",
                remedy="delete the backups that need this object; the next backup stores it again",
                code="object_damaged",
            ) from None

    def read(self, key: BackupKey, first: int, at_most: int) -> bytes | None:
        return self._in_root(object_files.read, key, first, at_most)

    def has(self, keys: Collection[str]) -> set[str]:
        return self._in_root(object_files.has, keys)

    def listed(self, prefix: str) -> Sequence[StoredObject]:
        return self._in_root(object_files.listed, prefix)

    def remove(self, key: BackupKey) -> int:
        return self._in_root(object_files.remove, key)

    def room(self) -> StoreRoom:
        about = self._in_root(os.fstatvfs)
        return StoreRoom(
            about.f_frsize * about.f_blocks,
            about.f_frsize * about.f_bavail,
            about.f_files,
            about.f_favail,
            bool(about.f_flag & os.ST_RDONLY),
        )

    def _in_root(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            root = self._root()
            try:
                return function(root, *arguments)
            finally:
                os.close(root)
        except OSError as trouble:
            raise _own(self._path, trouble) from trouble

    def _root(self) -> int:
        """Made at the first use, and durable before the first object is."""
        try:
            return os.open(self._path, _DIRECTORY)
        except FileNotFoundError:
            pass
        with suppress(FileExistsError):
            os.mkdir(self._path, 0o700)
        above = os.open(os.path.dirname(self._path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above)
        finally:
            os.close(above)
        return os.open(self._path, _DIRECTORY)


def _own(path: str, trouble: OSError) -> HoldfastError:
    """The disk is the hub's own: said as its fault."""
    if trouble.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed(
            f"no space is left in the store of backups ({trouble.strerror}); what is stored there is unchanged",
            remedy=f"free space on the file system of {path}",
            code="no_space",
        )
    return troubles.of(path, trouble)
