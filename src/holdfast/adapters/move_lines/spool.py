"""What a node gets directly in a move: files in a directory of the agent's own, until the move is over."""

import asyncio
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from holdfast.adapters.backup_target import troubles
from holdfast.adapters.backup_target.blocking import Blocking, Silent
from holdfast.adapters.backup_target.local_dir import LIST_S, LOOK_S, OBJECT_S, PLACES, RESERVE_BYTES_MAX, RESERVE_PART
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.errors import HoldfastError
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX, BackupKey
from holdfast.ports.backup_target import Prunable, StoredObject, TargetState

T = TypeVar("T")
Content = bytes | memoryview


class Files:
    """Blocking, for any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._store = StoreDirectory(path, "the directory of moves")
        self.read, self.has, self.listed, self.remove = (
            self._store.read, self._store.has, self._store.listed, self._store.remove,
        )  # fmt: skip

    def put(self, key: BackupKey, content: Content) -> None:
        backup_key.check_content(key, content)
        if len(content) > self._free_bytes() and not self.has([key.text]):
            raise troubles.full(self.path, f"{self._free_bytes():,} bytes are free for objects")
        self._store.put(key, content)

    def look(self) -> TargetState:
        return TargetState("attached", "", self._free_bytes())

    def drop_sent(self, but: Collection[str]) -> None:
        """Of each fleet, all services but these. Follows no link."""
        for fleet in _names(self.path):
            for service in _names(os.path.join(self.path, fleet)):
                if service not in but:
                    shutil.rmtree(os.path.join(self.path, fleet, service))

    def _free_bytes(self) -> int:
        room = self._store.room()
        return max(0, room.free_bytes - min(room.size_bytes // RESERVE_PART, RESERVE_BYTES_MAX))


class Spool:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._work = Blocking(PLACES, "moves")

    async def put(self, key: str, content: bytes) -> None:
        await self._run(OBJECT_S, self._files.put, backup_key.parse(key), content)

    async def get(self, key: str) -> bytes | None:
        return await self._run(OBJECT_S, self._files.read, backup_key.parse(key), 0, OBJECT_BYTES_MAX)

    async def has(self, keys: Collection[str]) -> set[str]:
        return await self._run(LIST_S, self._files.has, frozenset(keys))

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return await self._run(LIST_S, self._files.listed, backup_key.check_prefix(prefix))

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        await self._run(OBJECT_S, self._files.remove, backup_key.parse(key))

    async def look(self) -> TargetState:
        try:
            return await self._run(LOOK_S, self._files.look)
        except HoldfastError as trouble:
            return TargetState(troubles.condition(trouble), trouble.message)

    async def close(self) -> None:
        """Threads end with their calls."""
        await asyncio.sleep(0)

    async def _run(self, limit_s: float, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return await self._work.run(limit_s, function, *arguments)
        except Silent:
            raise troubles.silent(self._files.path, limit_s) from None


def _names(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
