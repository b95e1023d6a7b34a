"""The way between the two nodes of a move: sealed objects, and what each of them signed for."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.agent.backups.store import Store
from holdfast.agent.moves.declared import Moving
from holdfast.errors import Corrupt
from holdfast.model import backup_key
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.model.move import EPOCH, FORMAT, READY, Pass, Ready, epoch_of
from holdfast.ports.backup_target import BackupTarget, Prunable
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import moves

LAST = 4_999  # word of the target: it has all


class Passage:
    """`target` stores objects for this move, at the hub or at the other node; `pause` waits for a word, and no longer
    than it is told."""

    def __init__(
        self,
        target: BackupTarget,
        key: IdentityKey,
        fleet: str,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.pause = pause
        self._target = target
        self._key = key
        self._fleet = fleet
        self.objects = Store(target, fleet)

    # ---- words

    def signed(self, word: Pass | Ready) -> bytes:
        return moves.sign(self._key, word)

    async def say(self, moving: Moving, word: Pass | Ready) -> None:
        number = LAST if isinstance(word, Ready) and word.has_all else word.number
        await self.repeat(moving, number, self.signed(word), isinstance(word, Ready))

    async def repeat(self, moving: Moving, number: int, content: bytes, is_ready: bool = False) -> None:
        sequence = moving.epoch * EPOCH + (READY if is_ready else 0) + number
        await self._target.put(backup_key.receipt(self._fleet, moving.service, sequence, content), content)

    async def newest(self, moving: Moving) -> Pass | None:
        """The last word of the source. Words that it did not sign for this move are not looked at."""
        meant = self.meant(moving)
        for key in reversed(await self._words(moving, 0, READY)):
            content = await self._target.get(key.text)
            if content is not None and moving.peer is not None:
                try:
                    return moves.passed(content, meant, moving.peer.key).word
                except Corrupt:
                    continue
        return None

    async def ready(self, moving: Moving) -> Ready | None:
        """The last word of the target."""
        meant = Ready(FORMAT, self._fleet, moving.service, moving.epoch, moving.target, 0)
        for key in reversed(await self._words(moving, READY, EPOCH)):
            content = await self._target.get(key.text)
            if content is not None and moving.peer is not None:
                try:
                    return moves.ready(content, meant, moving.peer.key).word
                except Corrupt:
                    continue
        return None

    async def empty(self, moving: Moving, prunable: Callable[[str], Prunable]) -> None:
        """Delete what this move and earlier ones of the service left here; words last: they say that it is over."""
        found = [key for key in await self.objects.objects(moving.service) if epoch_of(key) <= moving.epoch]
        for key in sorted(found, key=lambda key: key.kind == "receipts"):
            await self._target.delete(key.text, prunable(key.text))

    def meant(self, moving: Moving) -> Pass:
        nodes = moving.source, moving.target
        return Pass(FORMAT, self._fleet, moving.service, moving.epoch, *nodes, 0, "", 0, 0, 0)

    async def _words(self, moving: Moving, first: int, end: int) -> list[BackupKey]:
        found = await self._target.list(f"{self._fleet[:FLEET_DIGITS]}/{moving.service}/receipts/")
        keys = (backup_key.parse(one.key) for one in found)
        begin = moving.epoch * EPOCH
        return sorted(
            (key for key in keys if begin + first <= key.sequence < begin + end), key=lambda key: key.sequence
        )
