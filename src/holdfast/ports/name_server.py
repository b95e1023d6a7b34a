"""The DNS server of a node. It answers only for internal names, with the addresses of the signed manifest."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class Serving(Struct, frozen=True):
    address: str  # of this node, in the overlay
    zone: str
    upstream: tuple[str, ...] = ()  # servers for other names; () uses the machine's resolver


class NameServer(Protocol):
    async def follow(self, serving: Serving | None) -> None:
        """Run with these settings; None stops it and removes its files. Returns at once if nothing changes."""
        ...

    async def version(self) -> str:
        """Product and version of the running process, "" while none runs."""
        ...

    async def names(self) -> Mapping[str, str]:
        """The records it serves: name → address. Raises TryLater if the running process does not answer."""
        ...

    async def apply(self, names: Mapping[str, str]) -> None:
        """Replace all records; returns when the running process serves them."""
        ...


class Resolver(Protocol):
    async def addresses(self, name: str, servers: Sequence[str], at_most_s: float) -> tuple[str, ...]:
        """IPv4 and IPv6 addresses, sorted; () if there is no such name. `servers` () uses the machine's resolver.

        Raises TryLater if no server answers in time.
        """
        ...
