"""Lines in memory, with the faults that tests give them."""

import asyncio
from collections.abc import Collection, Sequence

from holdfast.adapters.backup_target import troubles
from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.errors import Unreachable
from holdfast.model import backup_key
from holdfast.model.move import Peer, epoch_of
from holdfast.ports.backup_target import Prunable, StoredObject, TargetState
from holdfast.ports.move_lines import Callers, Heard


class MemoryNet:
    """`doors`: address → who listens there. While `is_cut`, no call arrives."""

    def __init__(self) -> None:
        self.doors: dict[str, tuple[str, MemoryTarget, Callers, Heard]] = {}
        self.is_cut = False
        self.calls: list[tuple[str, str]] = []  # caller and address, of every call that was answered


class MemoryLines:
    """`line` is the node's own key."""

    def __init__(self, line: str, net: MemoryNet) -> None:
        self._line, self._net = line, net
        self._here = MemoryTarget()

    @property
    def here(self) -> MemoryTarget:
        return self._here

    def to(self, peer: Peer) -> "MemoryLine":
        return MemoryLine(self._line, peer, self._net)

    async def serve(self, address: str, callers: Callers, heard: Heard) -> None:
        self._net.doors[address] = self._line, self._here, callers, heard
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            del self._net.doors[address]

    async def forget(self, but: Collection[str]) -> None:
        self._here.objects = {
            key: content for key, content in self._here.objects.items() if backup_key.parse(key).service in but
        }


class MemoryLine:
    def __init__(self, caller: str, peer: Peer, net: MemoryNet) -> None:
        self._caller, self._peer, self._net = caller, peer, net

    async def put(self, key: str, content: bytes) -> None:
        target, heard = self._called(key)
        await target.put(key, content)
        heard("put", key)

    async def get(self, key: str) -> bytes | None:
        target, heard = self._called(key)
        found = await target.get(key)
        heard("get", key if found is not None else "")
        return found

    async def has(self, keys: Collection[str]) -> set[str]:
        found: set[str] = set()
        for key in keys:
            found |= await self._called(key)[0].has([key])
        return found

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        target, heard = self._called("")
        heard("list", "")
        return await target.list(prefix)

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        await self._called(key)[0].delete(key, proof)

    async def look(self) -> TargetState:
        return await self._called("")[0].look()

    async def close(self) -> None:
        """Nothing was opened."""

    def _called(self, key: str) -> tuple[MemoryTarget, Heard]:
        door = self._net.doors.get(self._peer.address)
        services = door[2](self._caller) if door is not None and door[0] == self._peer.key else {}
        parsed = backup_key.parse(key) if key else None
        is_mine = parsed is None or services.get(parsed.service) == epoch_of(parsed)
        if door is None or self._net.is_cut or not services or not is_mine:
            raise Unreachable(f"no answer at {self._peer.address}", remedy="the move goes through the hub")
        self._net.calls.append((self._caller, self._peer.address))
        return door[1], door[3]
