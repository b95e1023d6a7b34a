"""The way between the two nodes of a move: sealed objects, and what each of them signed for."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from holdfast.agent.backups.store import Store
from holdfast.agent.moves.declared import Moving
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model import backup_key
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.model.move import EPOCH, FORMAT, LAST, READY, Pass, Ready, epoch_of
from holdfast.ports.backup_target import BackupTarget, Prunable
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import moves


class Passage:
    """`target` stores objects for this move, at `hub` or at the other node; `pause` waits for a word, and no longer
    than it is told."""

    def __init__(
        self,
        target: BackupTarget,
        hub: BackupTarget,
        key: IdentityKey,
        fleet: str,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.pause = pause
        self._target = target
        self._hub = hub
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

    async def own(self, moving: Moving) -> tuple[bytes, Pass] | None:
        """The last handover that this node signed as the source, and that its books may have lost. The target's door
        has it until the move is over, the hub from then on: one that answers is enough."""
        with suppress(HoldfastError):
            if (found := await self._own_at(self._hub, moving)) is not None:
                return found
        return await self._own_at(self._target, moving)

    async def _own_at(self, place: BackupTarget, moving: Moving) -> tuple[bytes, Pass] | None:
        for key in reversed(await self._words(moving, 0, READY, place)):
            content = await place.get(key.text)
            with suppress(Corrupt):
                word = moves.passed(content or b"", self.meant(moving), self._key.line).word
                if content is not None and word.is_last:
                    return content, word
        return None

    async def close(self, moving: Moving, handover: bytes) -> None:
        """The target has all: this node stores at the hub that it handed over, for itself after its state was put
        back. It stays there as long as the revision has this move."""
        word = moves.passed(handover, self.meant(moving), self._key.line).word
        content = self.signed(replace(word, number=LAST, taken=True))
        await self._hub.put(self._closing(moving, content), content)

    def _closing(self, moving: Moving, content: bytes) -> str:
        return backup_key.receipt(self._fleet, moving.service, moving.epoch * EPOCH + LAST, content)

    async def empty(self, moving: Moving, prunable: Callable[[str], Prunable]) -> None:
        """Delete what this move and earlier ones of the service left here, but for the closing word; words last: they
        say that it is over."""
        closing = moving.epoch * EPOCH + LAST
        found = [key for key in await self.objects.objects(moving.service) if epoch_of(key) <= moving.epoch]
        for key in sorted(found, key=lambda key: key.kind == "receipts"):
            if (key.kind, key.sequence) != ("receipts", closing):
                await self._target.delete(key.text, prunable(key.text))

    def meant(self, moving: Moving) -> Pass:
        nodes = moving.source, moving.target
        return Pass(FORMAT, self._fleet, moving.service, moving.epoch, *nodes, 0, "", 0, 0, 0)

    async def _words(self, moving: Moving, first: int, end: int, place: BackupTarget | None = None) -> list[BackupKey]:
        found = await (place or self._target).list(f"{self._fleet[:FLEET_DIGITS]}/{moving.service}/receipts/")
        keys = (backup_key.parse(one.key) for one in found)
        begin = moving.epoch * EPOCH
        return sorted(
            (key for key in keys if begin + first <= key.sequence < begin + end), key=lambda key: key.sequence
        )
