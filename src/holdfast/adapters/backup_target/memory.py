"""A target in memory, with the faults that tests give it."""

from collections.abc import Collection, Sequence

from holdfast.adapters.backup_target import troubles
from holdfast.errors import HoldfastError
from holdfast.model import backup_key
from holdfast.ports.backup_target import Prunable, StoredObject, TargetState


class MemoryTarget:
    """`trouble`, while it is set, is what every call meets. `bytes_max` is how much fits."""

    def __init__(self, durable_id: str = "memory", bytes_max: int = 1024**3) -> None:
        self.objects: dict[str, bytes] = {}
        self.trouble: HoldfastError | None = None
        self.bytes_max = bytes_max
        self._durable_id = durable_id

    async def put(self, key: str, content: bytes) -> None:
        parsed = backup_key.parse(key)
        backup_key.check_content(parsed, content)
        self._meet()
        found = self.objects.get(key)
        if found is not None:
            if found != content:
                raise troubles.damaged("memory", key)
            return
        if len(content) > self._free_bytes():
            raise troubles.full("memory", f"{self._free_bytes():,} bytes are free for objects")
        self.objects[key] = bytes(content)

    async def get(self, key: str) -> bytes | None:
        parsed = backup_key.parse(key)
        self._meet()
        return self.objects.get(parsed.text)

    async def has(self, keys: Collection[str]) -> set[str]:
        wanted = {backup_key.parse(key).text for key in keys}
        self._meet()
        return wanted & self.objects.keys()

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        backup_key.check_prefix(prefix)
        self._meet()
        return [StoredObject(key, len(self.objects[key])) for key in sorted(self.objects) if key.startswith(prefix)]

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        self._meet()
        self.objects.pop(backup_key.parse(key).text, None)

    async def look(self) -> TargetState:
        if self.trouble is not None:
            return TargetState(troubles.condition(self.trouble), self.trouble.message, durable_id=self._durable_id)
        return TargetState("attached", "", self._free_bytes(), self._durable_id)

    async def close(self) -> None:
        """Nothing was opened."""

    def _meet(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def _free_bytes(self) -> int:
        return self.bytes_max - sum(map(len, self.objects.values()))
