"""The hub's store in memory."""

from collections.abc import Collection, Sequence

from holdfast.errors import Conflict
from holdfast.model.backup_key import BackupKey
from holdfast.ports.backup_objects import StoreRoom
from holdfast.ports.backup_target import StoredObject


class MemoryObjects:
    def __init__(self, size_bytes: int = 1024**4) -> None:
        self.objects: dict[str, bytes] = {}
        self.size_bytes = size_bytes

    def put(self, key: BackupKey, content: bytes | bytearray) -> bool:
        is_new = key.text not in self.objects
        if self.objects.setdefault(key.text, bytes(content)) != content:
            raise Conflict(f"other bytes lie under {key.text}", remedy="delete the object", code="object_damaged")
        return is_new

    def read(self, key: BackupKey, first: int, at_most: int) -> bytes | None:
        found = self.objects.get(key.text)
        return found[first : first + at_most] if found is not None else None

    def has(self, keys: Collection[str]) -> set[str]:
        return set(keys) & self.objects.keys()

    def listed(self, prefix: str) -> Sequence[StoredObject]:
        return [StoredObject(key, len(self.objects[key])) for key in sorted(self.objects) if key.startswith(prefix)]

    def remove(self, key: BackupKey) -> int:
        return len(self.objects.pop(key.text, b""))

    def room(self) -> StoreRoom:
        return StoreRoom(self.size_bytes, self.size_bytes - sum(map(len, self.objects.values())))
