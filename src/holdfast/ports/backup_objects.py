"""The objects of backups as the hub stores them: blocking, for threads of the hub. The agent does not have it."""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.model.backup_key import BackupKey
from holdfast.ports.backup_target import StoredObject


class StoreRoom(Struct, frozen=True):
    """The file system of the store, as `df` counts it; without a limit of files both numbers of them are 0."""

    size_bytes: int
    free_bytes: int
    files: int = 0
    free_files: int = 0
    is_read_only: bool = False


class BackupObjects(Protocol):
    """Creates and reads objects; one file each, by key. Each verb may be called by several threads."""

    def put(self, key: BackupKey, content: bytes | bytearray) -> bool:
        """Complete and durable on return, or not there. False: it was there already. Conflict: other bytes are."""
        ...

    def read(self, key: BackupKey, first: int, at_most: int) -> bytes | None:
        """A part of an object; None: it is not there."""
        ...

    def has(self, keys: Collection[str]) -> set[str]: ...

    def listed(self, prefix: str) -> Sequence[StoredObject]:
        """All objects whose keys begin so, sorted by key."""
        ...

    def remove(self, key: BackupKey) -> int:
        """How many bytes it had; 0 if it was not there."""
        ...

    def room(self) -> StoreRoom: ...
