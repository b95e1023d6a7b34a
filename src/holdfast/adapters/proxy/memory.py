"""A proxy in memory: for tests, and for nodes without a proxy, whose containers serve their own ports."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.adapters.proxy.refusals import no_certificate
from holdfast.errors import HoldfastError
from holdfast.ports.clock import Clock
from holdfast.ports.proxy import Backend, Listening, ProxyRoute, Servable

KEPT = 1000  # applied sets; bounds the memory of a long-running daemon


class Applied(Struct, frozen=True):
    at_s: float
    routes: tuple[ProxyRoute, ...]
    certificates: Mapping[str, Servable] = {}
    challenges: Mapping[str, str] = {}


class MemoryProxy:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._routes: tuple[ProxyRoute, ...] = ()
        self.applied: deque[Applied] = deque(maxlen=KEPT)
        self.troubles: list[HoldfastError] = []  # raised by apply instead, one per attempt
        self.waited_for: list[Backend] = []
        self.listening: Listening | None = None
        self.forgotten = False  # simulates the loss of its state file
        self._stirred = asyncio.Event()

    def lose(self) -> None:
        """As after a crash of the proxy: it runs again, without routes."""
        self._routes = ()
        self._stirred.set()

    @property
    def told(self) -> tuple[ProxyRoute, ...]:
        return self._routes

    async def follow(self, listening: Listening | None) -> None:
        self.listening = listening
        if listening is None:
            self._routes = ()

    async def version(self) -> str:
        return "memory 1" if self.listening is not None else ""

    async def known(self) -> Sequence[ProxyRoute] | None:
        if self.forgotten:
            return None
        return self.applied[-1].routes if self.applied else ()

    async def routes(self) -> Sequence[ProxyRoute]:
        return self._routes

    async def apply(
        self,
        routes: Sequence[ProxyRoute],
        certificates: Mapping[str, Servable],
        challenges: Mapping[str, str] = {},
    ) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        lacking = {route.certificate for route in routes if route.mode == "l7"} - certificates.keys()
        if lacking:
            raise no_certificate(lacking)
        self._routes = tuple(sorted(routes, key=_place))
        self.applied.append(Applied(self._clock.now_s(), self._routes, dict(certificates), dict(challenges)))

    async def drained(self, gone: Sequence[Backend], at_most_s: float) -> None:
        """No requests pass through it, so it returns at once."""
        self.waited_for = [*self.waited_for, *gone][-KEPT:]

    async def changed(self, at_most_s: float) -> bool:
        try:
            async with asyncio.timeout(at_most_s):
                await self._stirred.wait()
        except TimeoutError:
            return False
        self._stirred.clear()
        return True


def _place(route: ProxyRoute) -> tuple[str, str, str]:
    return route.service, route.component, route.route
