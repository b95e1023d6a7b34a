"""Which names and places a service takes beyond its own, so that scopes can bound them (X11). Pure.

A scope `service.web` covers web.DOMAIN, web.ZONE and the names below them, on workers. Everything else that a change
takes is a claim: a scope must have an item for it.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec import UNSET

from holdfast.model.fleet import Node, Settings
from holdfast.model.ids import FLEET
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry, Table
from holdfast.model.route import within, zone_of
from holdfast.planning.kinds.kind import destroy, read, settings_of

NAME, NODE, WORKER = "name:", "node:", "worker:"  # kinds of claims; NAME and NODE are also items of a scope


def is_own(name: str, service: str, settings: Settings) -> bool:
    """Of two domains, one within the other, the inner one counts: its own services have the names in it."""
    trees = [tree for tree in (*settings.public_domains, zone_of(settings)) if within(name, tree)]
    return bool(trees) and within(name, f"{service}.{max(trees, key=len)}")


class Bounds:
    """Roles and domains are read from the table before: a revision that also changes them proves nothing by that."""

    def __init__(self, before: Table, after: Table, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> None:
        self._before = before
        self._after = after
        self._old = old
        self._new = new
        self._others: dict[str, str] = {}  # node → its roles if it is not a worker, else ""

    @cached_property
    def _settings(self) -> Settings:
        known = FLEET in self._before.entries
        return settings_of(*((self._before, self._old) if known else (self._after, self._new))).settings

    def claims(self, address: str) -> Iterator[str]:
        was, becomes = self._before.entries.get(address), self._after.entries[address]
        for name in sorted(_names(becomes) - _names(was)):
            if not is_own(name, address.partition(".")[2], self._settings):
                yield NAME + name
        for node in sorted(_places(becomes) - _places(was)):
            yield (NODE if self._roles(node) else WORKER) + node

    def demands(self, address: str) -> Iterator[Demand]:
        was, becomes = self._before.entries.get(address), self._after.entries[address]
        for node in sorted(_places(becomes) - _places(was)):
            if roles := self._roles(node):
                yield destroy(f"places it on {node}, which is not a worker (roles: {roles})")

    def _roles(self, name: str) -> str:
        """The roles of a node that is not a worker. A node knows only itself: others count as workers there."""
        if name not in self._others:
            self._others[name] = self._read_roles(f"node.{name}")
        return self._others[name]

    def _read_roles(self, address: str) -> str:
        for table, contents in ((self._before, self._old), (self._after, self._new)):
            if (entry := table.entries.get(address)) is not None:
                roles = read(contents, entry, address, Node).roles
                return "" if "worker" in roles else ", ".join(roles)
        return ""


def _names(entry: Entry | None) -> set[str]:
    return {*entry.names, *entry.hostnames, *entry.public} if entry is not None else set()


def _places(entry: Entry | None) -> set[str]:
    if entry is None:
        return set()
    return {*entry.failover, *((entry.node,) if entry.node is not UNSET else ())}
