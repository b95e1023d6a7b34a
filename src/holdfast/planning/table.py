"""The resource table a fleet directory stands for: entries with placement, epochs and serving metadata. Pure."""

from collections.abc import Mapping, Set

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.errors import NotPermitted
from holdfast.model import canonical
from holdfast.model.fleet import Dns, Fleet, Service, Settings
from holdfast.model.ids import FLEET
from holdfast.model.observation import NodeObservation
from holdfast.model.revision import Entry, NodeIdentity, Table, Tombstone
from holdfast.model.secret import names_of
from holdfast.planning import identity, images, overlay
from holdfast.planning.edges import Edges, proxy_of
from holdfast.planning.placement import Placed, Placer, containers, has_data
from holdfast.planning.reach import hostnames, reach


class Drafted(Struct, frozen=True):
    """A table on the drawing board, with the decisions that led to it."""

    table: Table
    placed: dict[str, Placed]
    placer: Placer
    edged: dict[str, Placed]  # public hostname → edge
    edges: Edges


def draft(
    fleet: Fleet,
    documents: Mapping[str, bytes],
    applied: Table,
    seen: Mapping[str, NodeObservation],
    answers: Mapping[str, str],
    number: int,
    identities: Mapping[str, NodeIdentity] = {},
    revoked: Set[str] = frozenset(),
    reported: Mapping[str, str] = {},
) -> Drafted:
    """`reported`: the address each node says it has, from a report that its key signed."""
    placer = Placer(fleet.nodes, seen, applied)
    edges = Edges(fleet.nodes, applied)
    known_addresses = overlay.addresses(fleet.nodes, applied, reported, fleet.settings.overlay_cidr)
    placed: dict[str, Placed] = {}
    edged: dict[str, Placed] = {}
    entries: dict[str, Entry] = {}
    digest_of = canonical.digest
    sealed = {name: digest_of(content) for name, content in fleet.secrets.items()}
    for address, content in documents.items():
        digest = digest_of(content)
        kind, _, name = address.partition(".")
        if kind == "service":
            service = fleet.services[name]
            entry, why = _service_entry(name, service, digest, applied, placer, answers)
            if named := names_of(service):
                entry = replace(entry, secrets={one: sealed[one] for one in named if one in sealed})
            entries[address], chosen = reached(name, service, entry, fleet.settings, edges)
            placed[address] = why
            edged |= chosen
        elif kind == "node":
            known = applied.entries.get(address)
            node = fleet.nodes[name]
            entries[address] = Entry(
                digest,
                identity=identity.drafted(node, known, identities.get(name), revoked),
                drained=known is not None and known.drained,
                address=known_addresses[name],
                proxy=proxy_of(node),
                dns=serves_names(name, fleet.dns),
            )
        elif kind == "policy":
            entries[address] = Entry(digest, applies_to=fleet.policies[name].applies_to)
        else:
            entries[address] = Entry(digest)
    return Drafted(Table(entries, tombstones(applied, entries, number)), placed, placer, edged, edges)


def serves_names(node: str, dns: Dns) -> bool:
    """Every node answers for internal names, unless the fleet names those that do or wants none of it (C-20)."""
    return dns.driver != "none" and (not dns.nodes or node in dns.nodes)


def reached(
    name: str, service: Service, entry: Entry, settings: Settings, edges: Edges, must: bool = True
) -> tuple[Entry, dict[str, Placed]]:
    """The entry with its names, and an edge for every public hostname; with the reasons.

    `must`: a public route nobody would serve is refused, unless the service rests anyway.
    """
    found = reach(name, service, settings)
    if not found.public:
        return replace(entry, names=found.names, public={}) if found.names or entry.public else entry, {}
    chosen: dict[str, Placed] = {}
    public = dict(found.public)
    for hostname, route in found.public.items():
        edge = edges.choose(hostname)
        if edge is not None:
            chosen[hostname] = edge
            public[hostname] = replace(route, edge=edge.node)
        elif must and service.active:
            raise edges.no_edge(name, hostname)
    claimed = hostnames(entry.hostnames, public)
    return replace(entry, names=found.names, public=public, hostnames=claimed), chosen


def tombstones(applied: Table, entries: Mapping[str, Entry], number: int) -> dict[str, Tombstone]:
    """Removed now, or removed before and not declared again."""
    gone = {address: stone for address, stone in applied.tombstones.items() if address not in entries}
    for address, entry in applied.entries.items():
        if address not in entries:
            gone[address] = Tombstone(entry.digest, number, entry.node, entry.epoch)
    return gone


def _service_entry(
    name: str, service: Service, digest: str, applied: Table, placer: Placer, answers: Mapping[str, str]
) -> tuple[Entry, Placed]:
    address = "service." + name
    before = applied.entries.get(address)
    stone = applied.tombstones.get(address)
    current = None if before is None or before.node is UNSET else before.node
    where = placer.place(name, service, current)
    epoch = before.epoch if before else (stone.epoch + 1 if stone else 1)
    if before and current != where.node:
        if has_data(service):
            raise moved_data(name, current or "", where.node)
        epoch += 1
    known = images.resolved(service, answers, before.images if before else {})
    return Entry(digest, where.node, epoch, *serving_metadata(service), known, failover=service.failover), where


def serving_metadata(service: Service) -> tuple[int, bool, tuple[str, ...], tuple[int, ...]]:
    """What an entry repeats of its content so that serving and planning need not open it."""
    routes = [route for component in service.components for route in component.routes]
    return (
        containers(service) if service.active else 0,
        service.protect,
        tuple(sorted({str(route.hostname) for route in routes if route.hostname is not UNSET})),
        tuple(sorted({route.port for route in routes})),
    )


def moved_data(name: str, source: str, target: str) -> NotPermitted:
    return NotPermitted(
        f"service.{name} keeps data on {source}; moving it to {target} means moving its volumes, "
        "and `holdfast migrate` is not built yet",
        remedy=f'keep it there: set node = "{source}" in services/{name}.toml',
        code="moves_data",
    )


def limited(applied: Table, drafted: Table, address: str) -> Table:
    """The applied table with one address as drafted: what `deploy SVC` applies."""
    entries, stones = dict(applied.entries), dict(applied.tombstones)
    entries[address] = drafted.entries[address]
    stones.pop(address, None)
    if FLEET not in entries:  # nothing applied yet: a first deploy brings the fleet along
        return drafted
    entries |= _taken_along(applied, drafted, drafted.entries[address])
    return Table(dict(sorted(entries.items())), stones)


def _taken_along(applied: Table, drafted: Table, service: Entry) -> dict[str, Entry]:
    """Nodes that a public route needs and whose address, proxy or certificate an older release did not record. Nothing
    else of them may change, and nothing that a higher grade would have to sign."""
    nodes = {str(service.node), *service.failover, *(route.edge for route in service.public.values())}
    found: dict[str, Entry] = {}
    for node in sorted(nodes if service.public else ()):
        was, becomes = applied.entries.get(f"node.{node}"), drafted.entries.get(f"node.{node}")
        if was is None or becomes is None or was.digest != becomes.digest or identity.widens(was, becomes):
            continue
        if _lacks(was):
            found[f"node.{node}"] = becomes
    return found


def _lacks(node: Entry) -> bool:
    is_half_pinned = node.identity is not UNSET and node.identity.issuer != "" and not node.identity.certificate
    return not node.address or not node.proxy or is_half_pinned


def without(applied: Table, address: str, number: int) -> Table:
    """The applied table with one address retired: what `undeploy SVC` applies."""
    entries = {key: entry for key, entry in applied.entries.items() if key != address}
    return Table(entries, tombstones(applied, entries, number))
