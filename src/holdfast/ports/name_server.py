"""The DNS server of a node: answers for internal names with the addresses of the signed manifest, and for no others."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class Serving(Struct, frozen=True):
    address: str  # of this node, in the overlay
    zone: str
    upstream: tuple[str, ...] = ()  # where questions about other names go; () is as the machine itself asks


class NameServer(Protocol):
    async def follow(self, serving: Serving | None) -> None:
        """Run like this; None ends it and removes what it had. Returns at once if that is so already."""
        ...

    async def version(self) -> str:
        """Product and version of the running process, "" while none runs."""
        ...

    async def names(self) -> Mapping[str, str]:
        """What is served: name → address. Raises TryLater if the running process does not answer."""
        ...

    async def apply(self, names: Mapping[str, str]) -> None:
        """Replace everything that is served; returns when the running process answers by it."""
        ...


class Resolver(Protocol):
    async def addresses(self, name: str, servers: Sequence[str], at_most_s: float) -> tuple[str, ...]:
        """IPv4 and IPv6 addresses, sorted; () if there is no such name. `servers` () asks as the machine is set up.

        Raises TryLater if nobody answers in time.
        """
        ...
