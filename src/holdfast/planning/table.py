"""The resource table a fleet directory stands for: entries with placement, epochs and serving metadata. Pure."""

from collections.abc import Mapping, Set

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.errors import NotPermitted
from holdfast.model import canonical
from holdfast.model.fleet import Fleet, Service
from holdfast.model.ids import FLEET
from holdfast.model.observation import NodeObservation
from holdfast.model.revision import Entry, NodeIdentity, Table, Tombstone
from holdfast.model.secret import names_of
from holdfast.planning import identity, images
from holdfast.planning.placement import Placed, Placer, containers, has_data


class Drafted(Struct, frozen=True):
    """A table on the drawing board, with the placement decisions that led to it."""

    table: Table
    placed: dict[str, Placed]
    placer: Placer


def draft(
    fleet: Fleet,
    documents: Mapping[str, bytes],
    applied: Table,
    seen: Mapping[str, NodeObservation],
    answers: Mapping[str, str],
    number: int,
    identities: Mapping[str, NodeIdentity] = {},
    revoked: Set[str] = frozenset(),
) -> Drafted:
    placer = Placer(fleet.nodes, seen, applied)
    placed: dict[str, Placed] = {}
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
            entries[address], placed[address] = entry, why
        elif kind == "node":
            known = applied.entries.get(address)
            is_key = identity.drafted(fleet.nodes[name], known, identities.get(name), revoked)
            entries[address] = Entry(digest, identity=is_key, drained=known is not None and known.drained)
        elif kind == "policy":
            entries[address] = Entry(digest, applies_to=fleet.policies[name].applies_to)
        else:
            entries[address] = Entry(digest)
    return Drafted(Table(entries, tombstones(applied, entries, number)), placed, placer)


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
    return Table(dict(sorted(entries.items())), stones)


def without(applied: Table, address: str, number: int) -> Table:
    """The applied table with one address retired: what `undeploy SVC` applies."""
    entries = {key: entry for key, entry in applied.entries.items() if key != address}
    return Table(entries, tombstones(applied, entries, number))
