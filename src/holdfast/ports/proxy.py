"""The one proxy of a node. Only the agent writes it; a whole set of routes at a time, acknowledged when in effect."""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct


class Backend(Struct, frozen=True, order=True):
    address: str
    port: int


class ProxyRoute(Struct, frozen=True):
    """Which backends answer for one route of a service. Sorted sets of these are hashed to find drift (T-12)."""

    service: str
    component: str
    route: str
    mode: Literal["l4", "l7"]
    hostnames: tuple[str, ...]
    public: bool
    backends: tuple[Backend, ...]


class Proxy(Protocol):
    async def routes(self) -> Sequence[ProxyRoute]:
        """What the running proxy really has."""
        ...

    async def apply(self, routes: Sequence[ProxyRoute]) -> None:
        """Replace the whole set; returns when the running proxy has acknowledged it. Old connections are kept."""
        ...

    async def drained(self, gone: Sequence[Backend], at_most_s: float) -> None:
        """Wait until nothing is under way any more to backends that have no route, or the time is over."""
        ...
