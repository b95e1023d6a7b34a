"""Slots for connections: callers with and without an identity do not compete for the same ones (D6).

Counts, and chooses which connection has to go. The owner of a slot knows how its connection is closed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

from holdfast.errors import Limited
from holdfast.ports.http_server import Slot

STRANGERS_MAX = 512
STRANGERS_PER_ADDRESS = 64
KNOWN_MAX = 4_096
KNOWN_PER_IDENTITY = 16


class Place:
    """One connection. `waiting`: the hub waits for the peer, not the other way round."""

    __slots__ = ("address", "identity", "leave_now", "waiting")

    def __init__(self, address: str, leave_now: Callable[[], None]) -> None:
        self.address = address
        self.identity = ""
        self.waiting = True
        self.leave_now = leave_now


class ConnectionSlots:
    def __init__(self) -> None:
        # Dictionaries as ordered sets: the oldest connection stands first.
        self._strangers: dict[Slot, None] = {}
        self._by_address: dict[str, dict[Slot, None]] = {}
        self._known: dict[Slot, None] = {}
        self._by_identity: dict[str, dict[Slot, None]] = {}

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @property
    def known(self) -> int:
        return len(self._known)

    def enter(self, host: str, leave_now: Callable[[], None]) -> Slot | None:
        """A slot for a new connection from this host; None if there is none."""
        slot = Place(neighbourhood(host), leave_now)
        return slot if self.admit(slot) else None

    def admit(self, slot: Slot) -> bool:
        """A new connection gets the slot of the one that has kept the hub waiting longest; if none does, False."""
        neighbours = self._by_address.get(slot.address, {})
        if len(neighbours) >= STRANGERS_PER_ADDRESS and not self._make_room(neighbours):
            return False
        if len(self._strangers) >= STRANGERS_MAX and not self._make_room(self._strangers):
            return False
        self._strangers[slot] = None
        self._by_address.setdefault(slot.address, {})[slot] = None
        return True

    def identify(self, slot: Slot, identity: str) -> None:
        """The connection proved an identity, and moves to the slots for those."""
        if slot.identity == identity:
            return
        same = self._by_identity.get(identity, {})
        if len(same) >= KNOWN_PER_IDENTITY and not self._make_room(same):
            raise _crowded(f"{identity} has {KNOWN_PER_IDENTITY} connections, all of them busy")
        if len(self._known) >= KNOWN_MAX and not self._make_room(self._known):
            raise _crowded("every connection for known callers is busy")
        self.leave(slot)
        slot.identity = identity
        self._known[slot] = None
        self._by_identity.setdefault(identity, {})[slot] = None

    def leave(self, slot: Slot) -> None:
        """A second call changes nothing."""
        self._strangers.pop(slot, None)
        self._known.pop(slot, None)
        for book, name in ((self._by_address, slot.address), (self._by_identity, slot.identity)):
            found = book.get(name)
            if found is not None:
                found.pop(slot, None)
                if not found:
                    del book[name]

    def _make_room(self, among: Iterable[Slot]) -> bool:
        oldest = next((slot for slot in among if slot.waiting), None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.leave_now()
        return True


def neighbourhood(host: str) -> str:
    """The address by which callers without an identity are counted; of IPv6 the network, which one machine has."""
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
