"""Where the objects of each move are: a target that chooses by the service in the key."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from holdfast.agent.moves.ways.coming import Coming
from holdfast.agent.moves.ways.leaving import Leaving
from holdfast.model import backup_key
from holdfast.model.move import Peer
from holdfast.ports.backup_target import BackupTarget, Prunable, StoredObject, TargetState
from holdfast.ports.move_lines import MoveLines


class Ways:
    """A service that no revision moves, or that cannot go directly, has the hub only."""

    def __init__(self, hub: BackupTarget, lines: MoveLines) -> None:
        self._hub = hub
        self._lines = lines
        self._leaving: dict[str, tuple[Peer, Leaving]] = {}
        self._coming: dict[str, Coming] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._gone: list[Leaving] = []
        self._is_open = False

    def follow(self, out: Mapping[str, Peer], into: Collection[str]) -> None:
        """`out`: services that this node hands over, and to which one; `into`: those that it takes over."""
        for service, (peer, leaving) in list(self._leaving.items()):
            if out.get(service) != peer:
                del self._leaving[service]
                self._gone.append(leaving)
        for service, peer in out.items():
            if service not in self._leaving:
                self._leaving[service] = peer, Leaving(self._lines.to(peer), self._hub)
        self._coming = {
            service: self._coming.get(service) or Coming(self._lines.here, self._hub, lambda: self._is_open)
            for service in into
        }

    def opened(self, is_open: bool) -> None:
        """Whether other nodes may call this one now."""
        self._is_open = is_open

    def way(self, service: str) -> str:
        """How the last object of it went; "" if none did."""
        return self._leaving[service][1].way if service in self._leaving else ""

    def heard(self, verb: str, key: str) -> None:
        """Another node has called, and has done this with the object of this key."""
        for coming in self._coming.values():
            coming.heard(verb, key)
        if verb == "put" and key and backup_key.parse(key).kind == "receipts":
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)

    async def pause(self, seconds: float) -> None:
        """Until another node has said something, and no longer than this."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await waiting
        finally:
            self._waiting.discard(waiting)

    async def tidy(self) -> None:
        while self._gone:
            await self._gone.pop().close()

    # ---- a target

    async def put(self, key: str, content: bytes) -> None:
        await self._of(backup_key.parse(key).service).put(key, content)

    async def get(self, key: str) -> bytes | None:
        return await self._of(backup_key.parse(key).service).get(key)

    async def has(self, keys: Collection[str]) -> set[str]:
        found = set[str]()
        for service in {backup_key.parse(key).service for key in keys}:
            found |= await self._of(service).has([key for key in keys if backup_key.parse(key).service == service])
        return found

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return await self._of(backup_key.service_of(backup_key.check_prefix(prefix))).list(prefix)

    async def delete(self, key: str, proof: Prunable) -> None:
        await self._of(backup_key.parse(key).service).delete(key, proof)

    async def look(self) -> TargetState:
        return await self._hub.look()

    async def close(self) -> None:
        for _, leaving in self._leaving.values():
            await leaving.close()
        await self.tidy()
        await self._hub.close()

    def _of(self, service: str) -> BackupTarget:
        if service in self._leaving:
            return self._leaving[service][1]
        return self._coming.get(service, self._hub)
