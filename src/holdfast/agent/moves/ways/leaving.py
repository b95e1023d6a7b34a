"""The source's side: each object goes directly to the target, or through the hub while the target does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from holdfast.errors import Conflict, Corrupt, HoldfastError, Invalid
from holdfast.model import backup_key
from holdfast.ports.backup_target import BackupTarget, Prunable, StoredObject, TargetState

T = TypeVar("T")

SOON_S, LATER_S = 0.1, 10.0  # until the target is called again: after it refused at once, or did not answer
AT_ONCE_S = 0.5
FIRST_S, FIRST_LOOK_S = 2.0, 0.1  # at the beginning: the target may accept the revision a moment later

_OURS = (Conflict, Corrupt, Invalid)  # the other way would meet the same


class Leaving:
    """What lies at either place counts. The target keeps what it says itself, so while it answers, no other place is
    asked for words."""

    def __init__(self, line: BackupTarget, hub: BackupTarget) -> None:
        self._line = line
        self._hub = hub
        self._again_s = 0.0  # by the clock of the event loop
        self.way = ""

    async def put(self, key: str, content: bytes) -> None:
        is_taken = await self._is_taken(key, content)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + FIRST_S
        while not is_taken and not self.way and loop.time() < until_s:
            await asyncio.sleep(FIRST_LOOK_S)
            is_taken = await self._is_taken(key, content)
        if not is_taken:
            self.way = "through the hub"
            await self._hub.put(key, content)

    async def _is_taken(self, key: str, content: bytes) -> bool:
        if not self._may_call():
            return False
        try:
            await self._called(self._line.put(key, content))
        except _OURS:
            raise
        except HoldfastError:
            return False
        self.way = "directly"
        return True

    async def get(self, key: str) -> bytes | None:
        found = await self._asked(lambda: self._line.get(key))
        return found if found is not None else await self._hub.get(key)

    async def has(self, keys: Collection[str]) -> set[str]:
        found = await self._asked(lambda: self._line.has(keys)) or set[str]()
        return found if found == set(keys) else found | await self._hub.has(keys)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        direct = await self._asked(lambda: self._line.list(prefix))
        if direct is not None and backup_key.is_of_receipts(prefix):
            return direct
        try:
            found = {one.key: one for one in (*await self._hub.list(prefix), *(direct or ()))}
        except HoldfastError:
            if direct is None:
                raise
            return direct
        return [found[key] for key in sorted(found)]

    async def delete(self, key: str, proof: Prunable) -> None:
        await self._asked(lambda: self._line.delete(key, proof))
        await self._hub.delete(key, proof)

    async def look(self) -> TargetState:
        return await (self._line if self.way == "directly" else self._hub).look()

    async def close(self) -> None:
        """The hub's connection is also that of other moves."""
        await self._line.close()

    def _may_call(self) -> bool:
        return asyncio.get_running_loop().time() >= self._again_s

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """None: the target does not answer."""
        if not self._may_call():
            return None
        try:
            return await self._called(call())
        except HoldfastError:
            return None

    async def _called(self, call: Awaitable[T]) -> T:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            return await call
        except HoldfastError:
            took_s = loop.time() - begun_s
            self._again_s = loop.time() + (SOON_S if took_s <= AT_ONCE_S else LATER_S)
            raise
