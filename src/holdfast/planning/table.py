"""Draft the resource table of a fleet directory: placement, epochs and serving metadata. Pure."""

from collections.abc import Mapping, Set

from msgspec import UNSET, Struct

from holdfast.model import canonical
from holdfast.model.fleet import Fleet
from holdfast.model.ids import FLEET
from holdfast.model.observation import NodeObservation
from holdfast.model.revision import Entry, NodeIdentity, Table, Tombstone
from holdfast.planning import identity, overlay
from holdfast.planning.edges import Edges
from holdfast.planning.kinds.every import kind_at
from holdfast.planning.kinds.kind import Drawing
from holdfast.planning.placement import Placed, Placer


class Drafted(Struct, frozen=True):
    """A drafted table, with the choices that led to it."""

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
    """`reported`: the address of each node, from a report that its key signed."""
    drawing = Drawing(
        fleet=fleet,
        applied=applied,
        placer=Placer(fleet.nodes, seen, applied),
        edges=Edges(fleet.nodes, applied),
        addresses=overlay.addresses(fleet.nodes, applied, reported, fleet.settings.overlay_cidr),
        sealed={name: canonical.digest(content) for name, content in fleet.secrets.items()},
        image_digests=answers,
        identities=identities,
        revoked=revoked,
        placed={},
        edged={},
    )
    entries = {
        address: kind_at(address).draft(drawing, address, canonical.digest(content))
        for address, content in documents.items()
    }
    table = Table(entries, tombstones(applied, entries, number))
    return Drafted(table, drawing.placed, drawing.placer, drawing.edged, drawing.edges)


def tombstones(applied: Table, entries: Mapping[str, Entry], number: int) -> dict[str, Tombstone]:
    """Removed now, or removed before and not declared again."""
    gone = {address: stone for address, stone in applied.tombstones.items() if address not in entries}
    for address, entry in applied.entries.items():
        if address not in entries:
            gone[address] = Tombstone(entry.digest, number, entry.node, entry.epoch)
    return gone


def limited(applied: Table, drafted: Table, address: str) -> Table:
    """The applied table with one address as drafted: what `deploy SERVICE` applies."""
    entries, stones = dict(applied.entries), dict(applied.tombstones)
    entries[address] = drafted.entries[address]
    stones.pop(address, None)
    if FLEET not in entries:  # nothing applied yet: a first deploy also applies the fleet
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
    """The applied table with one address retired: what `undeploy SERVICE` applies."""
    entries = {key: entry for key, entry in applied.entries.items() if key != address}
    return Table(entries, tombstones(applied, entries, number))
