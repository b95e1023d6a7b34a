"""A proxy that only remembers: for tests, and for nodes without one, where containers answer on their own ports."""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.ports.clock import Clock
from holdfast.ports.proxy import Backend, ProxyRoute

KEPT = 1000  # applied sets; a daemon that never ends must not grow with them


class Applied(Struct, frozen=True):
    at_s: float
    routes: tuple[ProxyRoute, ...]


class MemoryProxy:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._routes: tuple[ProxyRoute, ...] = ()
        self.applied: deque[Applied] = deque(maxlen=KEPT)
        self.troubles: list[HoldfastError] = []  # raised by apply instead, one per attempt, until none is left
        self.waited_for: list[Backend] = []

    def lose(self) -> None:
        """As after a crash of the proxy: it is there again and knows nothing."""
        self._routes = ()

    async def routes(self) -> Sequence[ProxyRoute]:
        return self._routes

    async def apply(self, routes: Sequence[ProxyRoute]) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self._routes = tuple(sorted(routes, key=_place))
        self.applied.append(Applied(self._clock.now_s(), self._routes))

    async def drained(self, gone: Sequence[Backend], at_most_s: float) -> None:
        """Nothing runs through it, so there is nothing to wait for."""
        self.waited_for = [*self.waited_for, *gone][-KEPT:]


def _place(route: ProxyRoute) -> tuple[str, str, str]:
    return route.service, route.component, route.route
