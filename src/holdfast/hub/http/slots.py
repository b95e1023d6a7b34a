"""Places at the hub's door: strangers and those who proved who they are do not compete for the same ones (D6).

Keeps count and chooses who has to go; what a place stands for, and how it is taken away, its owner knows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

from holdfast.errors import Limited

STRANGERS_MAX = 512
STRANGERS_PER_ADDRESS = 64
KNOWN_MAX = 4_096
KNOWN_PER_IDENTITY = 16


class Place:
    """One connection. `waiting`: the hub waits for it, not the other way round."""

    __slots__ = ("address", "identity", "leave_now", "waiting")

    def __init__(self, address: str, leave_now: Callable[[], None]) -> None:
        self.address = address
        self.identity = ""
        self.waiting = True
        self.leave_now = leave_now


class ConnectionSlots:
    def __init__(self) -> None:
        # Dictionaries as ordered sets: whoever came first stands first.
        self._strangers: dict[Place, None] = {}
        self._by_address: dict[str, dict[Place, None]] = {}
        self._known: dict[Place, None] = {}
        self._by_identity: dict[str, dict[Place, None]] = {}

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @property
    def known(self) -> int:
        return len(self._known)

    def admit(self, place: Place) -> bool:
        """A newcomer gets the place of whoever keeps us waiting longest; only if nobody does, he is refused."""
        neighbours = self._by_address.get(place.address, {})
        if len(neighbours) >= STRANGERS_PER_ADDRESS and not self._make_room(neighbours):
            return False
        if len(self._strangers) >= STRANGERS_MAX and not self._make_room(self._strangers):
            return False
        self._strangers[place] = None
        self._by_address.setdefault(place.address, {})[place] = None
        return True

    def identify(self, place: Place, identity: str) -> None:
        """It proved to be somebody, and moves over to those who did."""
        if place.identity == identity:
            return
        same = self._by_identity.get(identity, {})
        if len(same) >= KNOWN_PER_IDENTITY and not self._make_room(same):
            raise _crowded(f"{identity} has {KNOWN_PER_IDENTITY} connections, all of them busy")
        if len(self._known) >= KNOWN_MAX and not self._make_room(self._known):
            raise _crowded("every connection for known callers is busy")
        self.leave(place)
        place.identity = identity
        self._known[place] = None
        self._by_identity.setdefault(identity, {})[place] = None

    def leave(self, place: Place) -> None:
        """More than once is no mistake."""
        self._strangers.pop(place, None)
        self._known.pop(place, None)
        for book, name in ((self._by_address, place.address), (self._by_identity, place.identity)):
            found = book.get(name)
            if found is not None:
                found.pop(place, None)
                if not found:
                    del book[name]

    def _make_room(self, among: Iterable[Place]) -> bool:
        oldest = next((place for place in among if place.waiting), None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.leave_now()
        return True


def neighbourhood(host: str) -> str:
    """The address a stranger is counted by; of IPv6 the network, for one machine has 2^64 addresses there."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _crowded(what: str) -> Limited:
    return Limited(
        f"this hub is busy: {what}", remedy="close connections that are not needed, and try again", retry_after_s=2.0
    )
