"""A network with weather: seeded delay, loss of requests, loss of answers, duplication, reordering, partitions.

One random stream per world, drawn in the order of events, which virtual time fixes: the same seed is the same day.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from msgspec import Struct

from holdfast.errors import Unreachable
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.record import Link
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.ports.fleet_link import FleetLink

T = TypeVar("T")


class Weather(Struct, frozen=True):
    """Chances per message; delays are exponential with this mean."""

    delay_s: float = 0.02
    request_lost: float = 0.0
    answer_lost: float = 0.0
    duplicated: float = 0.0
    timeout_s: float = 15.0  # after which a caller gives up on what was lost


CALM = Weather()
STORM = Weather(delay_s=0.2, request_lost=0.05, answer_lost=0.05, duplicated=0.05)


class Network:
    """Knows who is cut off; everything between nodes and the hub passes here."""

    def __init__(self, random: Random, weather: Weather = CALM) -> None:
        self.random = random
        self.weather = weather
        self.cut: set[str] = set()
        self.lost = 0
        self.doubled = 0
        self._stray: set[asyncio.Task[None]] = set()

    def is_cut(self, node: str) -> bool:
        return node in self.cut

    async def carry(self, node: str, wait_s: float, call: Callable[[], Awaitable[T]], again: bool = False) -> T:
        """One request and its answer. A lost answer is the hard case: the hub has acted, the node does not know."""
        weather, random = self.weather, self.random
        if weather.delay_s:
            await asyncio.sleep(random.expovariate(1 / weather.delay_s))
        if node in self.cut or (weather.request_lost and random.random() < weather.request_lost):
            return await self._silence(wait_s)
        if again and weather.duplicated and random.random() < weather.duplicated:
            self._double(call)
        answer = await call()
        if node in self.cut or (weather.answer_lost and random.random() < weather.answer_lost):
            return await self._silence(wait_s)
        return answer

    async def _silence(self, wait_s: float) -> T:
        self.lost += 1
        await asyncio.sleep(wait_s + self.weather.timeout_s)
        raise Unreachable("nothing came back", remedy="try again")

    def _double(self, call: Callable[[], Awaitable[T]]) -> None:
        """The same message a second time, a moment later; nobody waits for its answer."""
        self.doubled += 1

        async def stray() -> None:
            await asyncio.sleep(self.random.expovariate(1 / max(self.weather.delay_s, 0.01)))
            try:
                await call()
            except Exception:
                self.lost += 1

        task = asyncio.ensure_future(stray())
        self._stray.add(task)
        task.add_done_callback(self._stray.discard)


class WeatheredLink:
    """A node's line through the network."""

    def __init__(self, node: str, inner: FleetLink, network: Network) -> None:
        self._node, self._inner, self._network = node, inner, network

    async def join(self, request: JoinRequest) -> JoinAnswer:
        return await self._network.carry(self._node, 0.0, lambda: self._inner.join(request), again=True)

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        return await self._network.carry(self._node, message.wait_s, lambda: self._inner.check_in(message), again=True)

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        return await self._network.carry(self._node, 0.0, lambda: self._inner.salvage(part), again=True)

    async def links(self, first: int, last: int) -> list[Link]:
        return await self._network.carry(self._node, 0.0, lambda: self._inner.links(first, last))

    async def blob(self, digest: str) -> bytes | None:
        return await self._network.carry(self._node, 0.0, lambda: self._inner.blob(digest))

    async def is_there(self) -> bool:
        return not self._network.is_cut(self._node) and await self._inner.is_there()

    async def close(self) -> None:
        await self._inner.close()
