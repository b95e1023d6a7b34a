"""Pins of services whose data moved since: the place of the data wins. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.applied import Applied, content
from holdfast.model.fleet import Service
from holdfast.model.revision import Entry
from holdfast.planning.contents import layered
from holdfast.planning.documents import nameless
from holdfast.planning.placement import drained_nodes, has_data


def pinned(service: Service, node: str) -> dict[str, bytes]:
    """By digest: its document with another pin, if it pins the service elsewhere, which would contradict the table."""
    if service.node is UNSET or service.node == node:
        return {}
    content = canonical.encode(nameless(replace(service, node=node)))
    return {canonical.digest(content): content}


class Places:
    """Where services of an older revision go now. `fresh`: documents that it needs for that, by digest."""

    def __init__(self, applied: Applied) -> None:
        self._applied = applied
        self.fresh: dict[str, bytes] = {}
        self.contents: Mapping[str, bytes] = layered(self.fresh, applied.contents)

    def of(self, address: str, target: Entry) -> Entry:
        now = self._applied.table.entries.get(address)
        if now is None or now.node == target.node:
            return target
        return self._with_data(address, self._off_drained(address, target, now), now)

    def _off_drained(self, address: str, target: Entry, now: Entry) -> Entry:
        """What moved off a drained node does not go back to it, unless it was pinned there in that revision."""
        if target.node not in drained_nodes(self._applied.table):
            return target
        return target if self._read(address, target).node is not UNSET else replace(target, node=now.node)

    def _with_data(self, address: str, target: Entry, now: Entry) -> Entry:
        """A service stays where its data is now, also if that revision pinned it elsewhere."""
        service = self._read(address, target)
        if now.node == target.node or not (has_data(self._read(address, now)) or has_data(service)):
            return target
        documents = pinned(service, str(now.node))
        self.fresh.update(documents)
        return replace(target, node=now.node, digest=next(iter(documents), target.digest))

    def _read(self, address: str, entry: Entry) -> Service:
        return msgspec.json.decode(content(self._applied.contents, entry.digest, address), type=Service)
