"""Nodes in memory that can be called: the same refusals as over HTTPS, without a network."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.errors import Unauthenticated, Unreachable
from holdfast.model.agent_address import place
from holdfast.ports.agent_link import Callee, WrongNode


@dataclass
class MemoryDoor:
    """One listener: its pins, the hub and the fleet it knows, and how often it was called."""

    key: str
    issuer: bytes
    name: str
    hub_key: str
    fleet: str
    knocks: int = 0
    answer: Callable[[str, bytes], Awaitable[bytes]] | None = None


class MemoryAgentLink:
    def __init__(self, hub_key: str) -> None:
        self._hub_key = hub_key
        self.doors: dict[tuple[str, int], MemoryDoor] = {}

    async def knock(self, callee: Callee) -> None:
        self._door(callee).knocks += 1

    async def post(self, callee: Callee, path: str, body: bytes) -> bytes:
        door = self._door(callee)
        if door.answer is None:
            raise Unreachable(f"{callee.node} did not answer: it takes no calls", remedy="start its agent")
        return await door.answer(path, body)

    def _door(self, callee: Callee) -> MemoryDoor:
        door = self.doors.get(place(callee.address))
        if door is None:
            raise Unreachable(f"{callee.node} did not answer: nothing listens there", remedy="start a listener there")
        if (door.issuer, door.name) != (callee.issuer, callee.name):
            raise WrongNode(f"that is not {callee.node}; nothing was sent to it", remedy="check what listens there")
        if door.hub_key != self._hub_key:
            raise _refused("unknown_key")
        if door.key != callee.key:
            raise _refused("other_recipient")
        if door.fleet != callee.fleet:
            raise _refused("other_fleet")
        return door


def _refused(code: str) -> Unauthenticated:
    return Unauthenticated("the request is refused", remedy="knock as its hub, at itself", code=code)
