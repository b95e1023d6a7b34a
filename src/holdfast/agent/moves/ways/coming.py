"""The target's side: what came directly is on this node's own disk, the rest is at the hub."""

import asyncio
from collections.abc import Callable, Collection, Sequence

from holdfast.errors import HoldfastError, Unreachable
from holdfast.model import backup_key
from holdfast.ports.backup_target import BackupTarget, Prunable, StoredObject, TargetState

HEARD_S = 2.0  # so long after its last call the source is taken to use the direct way
HUB_EVERY_S = 2.0  # how often the hub is asked meanwhile
HUB_S = 2.0  # how long it may take to answer, while the source may call
AGAIN_S = 1.0  # after the hub did not take a word
TOLD_S = 30.0  # for a word to arrive


class Coming:
    """What this node says is stored here, where the source reads it, and at the hub, whichever is first. `is_open`
    answers whether the source may call."""

    def __init__(self, here: BackupTarget, hub: BackupTarget, is_open: Callable[[], bool]) -> None:
        self._here = here
        self._hub = hub
        self._is_open = is_open
        self._heard_s = self._asked_s = -HUB_EVERY_S  # by the clock of the event loop
        self._words: dict[str, bytes] = {}  # that the hub gave: a key names its bytes
        self._unread: dict[str, asyncio.Event] = {}

    def heard(self, verb: str, key: str) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        if verb == "get" and key in self._unread:
            self._unread[key].set()

    async def put(self, key: str, content: bytes) -> None:
        """Until the source has read it, or the hub has it. Otherwise it may be lost, and the caller says it again."""
        await self._here.put(key, content)
        read = self._unread.setdefault(key, asyncio.Event())
        tasks = [asyncio.ensure_future(read.wait()), asyncio.ensure_future(self._post(key, content))]
        try:
            done, _ = await asyncio.wait(tasks, timeout=TOLD_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._unread.pop(key, None)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not done:
            raise Unreachable(
                f"neither the source nor the hub has taken what this node says for {TOLD_S:.0f} s",
                remedy="`holdfast status` shows whether both nodes reach the hub",
            )

    async def _post(self, key: str, content: bytes) -> None:
        while True:
            try:
                await self._hub.put(key, content)
                return
            except HoldfastError:
                await asyncio.sleep(AGAIN_S)

    async def get(self, key: str) -> bytes | None:
        found = self._words.get(key) or await self._here.get(key)
        if found is not None:
            return found
        found = await self._hub.get(key)
        if found is not None and backup_key.parse(key).kind == "receipts":
            self._words[key] = found
        return found

    async def has(self, keys: Collection[str]) -> set[str]:
        found = await self._here.has(keys)
        return found if found == set(keys) else found | await self._hub.has(keys)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        found = {one.key: one for one in await self._here.list(prefix)}
        now_s = asyncio.get_running_loop().time()
        is_often = backup_key.is_of_receipts(prefix)  # for each look at the words of the source
        if not is_often or now_s > min(self._heard_s + HEARD_S, self._asked_s + HUB_EVERY_S):
            self._asked_s = now_s if is_often else self._asked_s
            try:
                async with asyncio.timeout(HUB_S if self._is_open() else None):
                    found |= {one.key: one for one in await self._hub.list(prefix)}
            except (HoldfastError, TimeoutError):
                if not self._is_open():
                    raise
        return [found[key] for key in sorted(found)]

    async def delete(self, key: str, proof: Prunable) -> None:
        await self._here.delete(key, proof)
        await self._hub.delete(key, proof)

    async def look(self) -> TargetState:
        return await self._here.look()

    async def close(self) -> None:
        """Others use both places too."""
        await asyncio.sleep(0)
