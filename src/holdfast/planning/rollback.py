"""A new revision with the content of an older one. Pure."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model.applied import Applied, content
from holdfast.model.fleet import FleetDocument, Node, Service
from holdfast.model.ids import FLEET
from holdfast.model.plan import Plan
from holdfast.model.revision import Entry, Table
from holdfast.planning import identity, overlay, secrets
from holdfast.planning.edges import Edges, proxy_of
from holdfast.planning.formats import NOT_ASKED
from holdfast.planning.kinds.node import serves_names
from holdfast.planning.pins import Places
from holdfast.planning.service_entry import met_by, reached, serving_metadata
from holdfast.planning.step import between
from holdfast.planning.table import tombstones

T = TypeVar("T")


def plan_rollback(target: Table, applied: Applied, reads: Mapping[str, int] = NOT_ASKED) -> Plan:
    """A new revision with the content of an older one; epochs and tombstones only ever grow. `reads`: node → the newest
    format that its verified pulse names."""
    entries, places = {}, Places(applied)
    reached_by = _Redrafted(target, applied, places.contents)
    for address, entry in target.entries.items():
        now, stone = applied.table.entries.get(address), applied.table.tombstones.get(address)
        if address.startswith("node."):
            entries[address] = reached_by.node(address, _with_identity(entry, now, applied))
            continue
        if not address.startswith("service."):
            entries[address] = entry
            continue
        newest = now.epoch if now else (stone.epoch + 1 if stone else entry.epoch)
        entry = places.of(address, entry)
        moves = now is not None and now.node != entry.node
        move = now.move if now is not None and not moves else UNSET
        entries[address] = reached_by.service(address, replace(entry, epoch=newest + moves, move=move))
    table = Table(entries, tombstones(applied.table, entries, applied.head.number + 1))
    secrets.require_purpose(table, applied, secrets.Uses(formats=reads))
    return between(table, applied, places.fresh, {}, secrets.doubts(table, applied.contents), reads)


def _with_identity(target: Entry, now: Entry | None, applied: Applied) -> Entry:
    """A key that was replaced or revoked since does not come back with the settings of that revision, and a drained
    node stays drained."""
    node = msgspec.json.decode(content(applied.contents, target.digest, "a node"), type=Node)
    return replace(target, identity=identity.drafted(node, now, None), drained=now is not None and now.drained)


class _Redrafted:
    """The current addresses, edges and names of nodes and services of an older revision: names follow its settings,
    addresses and edges the current ones. What an older release did not record is recorded too."""

    def __init__(self, target: Table, applied: Applied, contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        self._target = target
        self._fleet = self._read(target.entries[FLEET].digest, FLEET, FleetDocument)
        self._nodes = {
            name: self._read(entry.digest, f"node.{name}", Node) for name, entry in target.of_kind("node").items()
        }
        cidr = self._fleet.settings.overlay_cidr
        self._addresses = overlay.addresses(self._nodes, applied.table, {}, cidr)
        self._edges = Edges(self._nodes, applied.table)

    def _read(self, digest: str, what: str, kind: type[T]) -> T:
        return msgspec.json.decode(content(self._contents, digest, what), type=kind)

    def node(self, address: str, entry: Entry) -> Entry:
        name = address[5:]
        answers = serves_names(name, self._fleet.dns)
        return replace(entry, address=self._addresses[name], proxy=proxy_of(self._nodes[name]), dns=answers)

    def service(self, address: str, entry: Entry) -> Entry:
        service = self._read(entry.digest, address, Service)
        declared = replace(entry, hostnames=serving_metadata(service)[2])
        declared = met_by(address[8:], service, declared, self._target, self._contents)
        return reached(address[8:], service, declared, self._fleet.settings, self._edges, must=False)[0]
