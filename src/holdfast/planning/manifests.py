"""Compile a resource table into one manifest per node. Pure and byte-deterministic (I-22); knows no product."""

from msgspec import UNSET, Raw

from holdfast.model import canonical
from holdfast.model.ids import FLEET
from holdfast.model.manifest import Named, NodeManifest
from holdfast.model.move import Peer
from holdfast.model.need import Pair
from holdfast.model.revision import Entry, Table, Tombstone
from holdfast.model.route import EdgeRoute, Place
from holdfast.planning import pairs
from holdfast.planning.kinds.every import kind_at
from holdfast.planning.kinds.kind import EVERY_NODE, Section
from holdfast.planning.public_routes import carried

_NO_NAMES = Raw()
_SECTIONS: tuple[Section, ...] = ("services", "policies", "storage", "standby", "more", "handover")

Sections = dict[Section, dict[str, Entry]]


class _Written(NodeManifest, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A manifest before encoding: names are the same for every node that has them, so they are encoded once."""

    names: Raw = _NO_NAMES  # type: ignore[assignment]  # msgspec omits this default by identity


def compile_manifests(fleet_id: str, table: Table) -> dict[str, bytes]:
    """Node name → manifest bytes. A node gets its own services, those it is standby for, the policies that bind
    them, and storage; an edge its public routes and their backends; a DNS node all internal names; a consumer and a
    provider their pairs."""
    settings = table.entries[FLEET].digest
    shared, own = _projected(table)
    everywhere, retired = _retired(table)
    edge = _edge_routes(table)
    names = _names(table)
    paired = _paired(table)
    found: dict[str, bytes] = {}
    for node, entry in sorted(table.of_kind("node").items()):
        mine = own.get(node, {})
        held = {section: {**shared.get(section, {}), **mine.get(section, {})} for section in _SECTIONS}
        gone = everywhere | retired[node] if node in retired else everywhere
        routes, own_pairs = edge.get(node, {}), paired.get(node, ())
        found[node] = canonical.encode(
            _Written(
                fleet=fleet_id,
                node=node,
                settings=settings,
                own=entry,
                **held,
                retired=gone,
                edge=routes,
                issuers=_issuers(table, node, routes, own_pairs) if routes or own_pairs else {},
                peers=_peers(table, node, held, own_pairs),
                pairs=own_pairs,
                names=names if entry.dns else _NO_NAMES,
            )
        )
    return found


def _projected(table: Table) -> tuple[Sections, dict[str, Sections]]:
    """What all nodes get, and what each node gets: the kind of a resource decides (planning/kinds)."""
    shared: Sections = {}
    own: dict[str, Sections] = {}
    for address, entry in table.entries.items():
        for node, section in kind_at(address).project(address, entry, table):
            sections = shared if node == EVERY_NODE else own.setdefault(node, {})
            sections.setdefault(section, {})[address] = entry
    return shared, own


def _edge_routes(table: Table) -> dict[str, dict[str, EdgeRoute]]:
    """Edge → its hostnames. An inactive service has no route; if its node has no address yet, the route's is empty."""
    found: dict[str, dict[str, EdgeRoute]] = {}
    for address, entry in table.entries.items():
        routes = carried(entry) if entry.public else {}
        if not routes or entry.node is UNSET:
            continue
        others = tuple(
            Place(node, where) for node in entry.failover if node != entry.node and (where := _address(table, node))
        )
        for hostname, route in routes.items():
            found.setdefault(route.edge, {})[hostname] = EdgeRoute(
                address[8:],
                route.component,
                route.route,
                entry.node,
                _address(table, entry.node),
                route.backend,
                entry.epoch,
                route.listener,
                route.mode,
                others,
                route.pass_headers,
                _fenced(table, entry),
            )
    return found


def _fenced(table: Table, entry: Entry) -> str:
    """A source that hands its data over serves until then. One that does not may still run, and must not be used."""
    if entry.move is UNSET or entry.move.hands_over or entry.move.source == entry.node:
        return ""
    return _address(table, entry.move.source)


def _paired(table: Table) -> dict[str, tuple[Pair, ...]]:
    """Node → the pairs that it is a part of. Its own services may be among those that it provides for."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs.of_entries(table.entries):
        for node in {pair.consumer, pair.provider}:
            found.setdefault(node, []).append(pair)
    return {node: tuple(own) for node, own in found.items()}


def _issuers(table: Table, node: str, routes: dict[str, EdgeRoute], own: tuple[Pair, ...]) -> dict[str, bytes]:
    """Of every node that these routes use or may use, and of the providers that this node asks, as far as an operator
    recorded it."""
    nodes = {node for route in routes.values() for node in (route.node, *(other.node for other in route.others))}
    nodes |= {pair.provider for pair in own if pair.consumer == node}
    known = {node: table.entries[f"node.{node}"].identity for node in sorted(nodes) if f"node.{node}" in table.entries}
    return {node: one.certificate for node, one in known.items() if one is not UNSET and one.certificate}


def _peers(table: Table, node: str, held: Sections, own: tuple[Pair, ...]) -> dict[str, Peer]:
    """The other node of each move of this one that is a handover, and of each of its pairs: itself, if it provides for
    a service that it runs."""
    moves = [entry.move for entry in held["services"].values() if entry.move is not UNSET and entry.move.hands_over]
    others = {move.source for move in moves} | {str(entry.node) for entry in held["handover"].values()}
    others = (others - {node}) | {pair.provider if pair.consumer == node else pair.consumer for pair in own}
    entries = {name: table.entries.get(f"node.{name}") for name in sorted(others)}
    return {
        name: Peer(entry.identity.key, entry.address)
        for name, entry in entries.items()
        if entry is not None and entry.identity is not UNSET
    }


def _names(table: Table) -> Raw:
    """Every service with its internal names and the address of its node; {} where nothing is known."""
    found: dict[str, Named] = {}
    for address, entry in table.entries.items():
        if entry.names and _is_active(entry) and entry.node is not UNSET:
            where = _address(table, entry.node)
            if where:
                found[address.partition(".")[2]] = Named(where, entry.names)
    return Raw(canonical.encode(found)) if found else _NO_NAMES


def _is_active(entry: Entry) -> bool:
    """An active service has at least one container."""
    return entry.containers > 0


def _address(table: Table, node: str) -> str:
    home = table.entries.get(f"node.{node}")
    return home.address if home is not None else ""


def _retired(table: Table) -> tuple[dict[str, Tombstone], dict[str, dict[str, Tombstone]]]:
    """Each tombstone goes to the node it was removed from. Without a node, or if that node was removed too, it goes
    to all: a lost ledger is rebuilt from manifests, so a manifest must have it."""
    everywhere: dict[str, Tombstone] = {}
    retired: dict[str, dict[str, Tombstone]] = {}
    for address, stone in table.tombstones.items():
        if stone.node is UNSET or f"node.{stone.node}" not in table.entries:
            everywhere[address] = stone
        else:
            retired.setdefault(stone.node, {})[address] = stone
    return everywhere, retired
