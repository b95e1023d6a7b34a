"""Cut a resource table into one manifest per node. Pure and byte-deterministic (I-22); knows no product."""

from msgspec import UNSET, Raw

from holdfast.model import canonical
from holdfast.model.ids import FLEET
from holdfast.model.manifest import Named, NodeManifest
from holdfast.model.revision import Entry, Table, Tombstone
from holdfast.model.route import EdgeRoute, Place
from holdfast.planning.public_routes import carried

_NO_NAMES = Raw()


class _Written(NodeManifest, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A manifest on its way to bytes: names are the same for every node that has them, so they are written once."""

    names: Raw = _NO_NAMES  # type: ignore[assignment]  # a default is left out; of these, that very one


def compile_manifests(fleet_id: str, table: Table) -> dict[str, bytes]:
    """Node name → manifest bytes. A node learns of its own services, those it stands by for, the policies that bind
    them, and storage; an edge of its public routes and of whom they lead to; who serves DNS, of every internal name.

    Alerts are in nobody's manifest: their URLs are often secrets, and only the hub sends.
    """
    settings = table.entries[FLEET].digest
    services: dict[str, dict[str, Entry]] = {}
    standby: dict[str, dict[str, Entry]] = {}
    fleet_policies: dict[str, Entry] = {}
    service_policies: dict[str, dict[str, Entry]] = {}
    storage: dict[str, Entry] = {}
    for address, entry in table.entries.items():
        if address.startswith("service."):
            if entry.node is not UNSET:
                services.setdefault(entry.node, {})[address] = entry
            for other in entry.failover:
                if other != entry.node:
                    standby.setdefault(other, {})[address] = entry
        elif address.startswith("policy."):
            for target in entry.applies_to or ():
                scope = fleet_policies if target == FLEET else service_policies.setdefault(target, {})
                scope[address] = entry
        elif address.startswith("storage."):
            storage[address] = entry
    everywhere, retired = _retired(table)
    edge = _edge_routes(table)
    names = _names(table)
    found: dict[str, bytes] = {}
    for address in sorted(table.entries):
        if not address.startswith("node."):
            continue
        node = address[5:]
        mine, spare = services.get(node, {}), standby.get(node, {})
        policies = dict(fleet_policies)
        for service in service_policies.keys() & (mine.keys() | spare.keys()):
            policies |= service_policies[service]
        gone = everywhere | retired[node] if node in retired else everywhere
        own = table.entries[address]
        routes = edge.get(node, {})
        found[node] = canonical.encode(
            _Written(
                fleet_id,
                node,
                settings,
                own,
                mine,
                policies,
                storage,
                spare,
                gone,
                routes,
                _issuers(table, routes) if routes else {},
                names if own.dns else _NO_NAMES,
            )
        )
    return found


def _edge_routes(table: Table) -> dict[str, dict[str, EdgeRoute]]:
    """Edge → its hostnames. A service at rest has no route; one whose node has no address yet has one that says so."""
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
            )
    return found


def _issuers(table: Table, routes: dict[str, EdgeRoute]) -> dict[str, bytes]:
    """Of every node that these routes lead to or may, as far as an operator recorded it."""
    nodes = {node for route in routes.values() for node in (route.node, *(other.node for other in route.others))}
    known = {node: table.entries[f"node.{node}"].identity for node in sorted(nodes) if f"node.{node}" in table.entries}
    return {node: one.certificate for node, one in known.items() if one is not UNSET and one.certificate}


def _names(table: Table) -> Raw:
    """Every service with its internal names and the address of the node that runs it; {} where nothing is known."""
    found: dict[str, Named] = {}
    for address, entry in table.entries.items():
        if entry.names and _is_active(entry) and entry.node is not UNSET:
            where = _address(table, entry.node)
            if where:
                found[address.partition(".")[2]] = Named(where, entry.names)
    return Raw(canonical.encode(found)) if found else _NO_NAMES


def _is_active(entry: Entry) -> bool:
    """An active service has a container at least."""
    return entry.containers > 0


def _address(table: Table, node: str) -> str:
    home = table.entries.get(f"node.{node}")
    return home.address if home is not None else ""


def _retired(table: Table) -> tuple[dict[str, Tombstone], dict[str, dict[str, Tombstone]]]:
    """Each tombstone goes to the node it was removed from. What lay nowhere, or on a node that left too, goes to all:
    a lost ledger is rebuilt from manifests, and somebody must remember it."""
    everywhere: dict[str, Tombstone] = {}
    retired: dict[str, dict[str, Tombstone]] = {}
    for address, stone in table.tombstones.items():
        if stone.node is UNSET or f"node.{stone.node}" not in table.entries:
            everywhere[address] = stone
        else:
            retired.setdefault(stone.node, {})[address] = stone
    return everywhere, retired
