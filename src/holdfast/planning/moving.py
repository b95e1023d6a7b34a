"""Plan to move a service with its data to another node. Pure."""

from collections.abc import Mapping

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.errors import Conflict, Invalid, NotPermitted
from holdfast.model import canonical, mounts
from holdfast.model.applied import Applied
from holdfast.model.move import Move
from holdfast.model.observation import NodeObservation
from holdfast.model.plan import Plan
from holdfast.model.revision import Entry, Table
from holdfast.planning import formats, pins, secrets
from holdfast.planning.contents import layered
from holdfast.planning.formats import NOT_ASKED
from holdfast.planning.move_target import Wish, home, target_of
from holdfast.planning.placement import Placed, has_data
from holdfast.planning.step import between

NOTHING_SEALED: Mapping[str, bytes] = {}


def plan_move(
    wish: Wish, applied: Applied, seen: Mapping[str, NodeObservation], reads: Mapping[str, int] = NOT_ASKED
) -> Plan:
    """`reads`: node → the newest format that its verified pulse names."""
    where = target_of(wish, applied, seen)
    source, service = home(wish.service, applied), applied.service(wish.service)
    if not has_data(service) and wish.backup:
        raise Invalid(
            f"service.{wish.service} has no data, so no backup of it is restored",
            remedy=f"holdfast migrate {wish.service} --to {where.node}",
            code="no_data",
        )
    outside = mounts.outside(service, wish.service)
    if outside and not wish.backup:
        raise NotPermitted(
            f"service.{wish.service} mounts {outside[0]} of {source}, which is no data of it, and does not move",
            remedy=f"make it a volume with a name in services/{wish.service}.toml and copy the files there, or remove "
            "it; then apply, and repeat the command",
            code="host_path",
        )
    move = Move(source, wish.backup, wish.key, aside=wish.aside) if has_data(service) else UNSET
    warnings = tuple(
        f"service.{wish.service} needs {path} on {where.node}: it is not in the backup" for path in outside
    )
    return _moved(wish, where, move, applied, reads, warnings)


def came_from(service: str, applied: Applied) -> str:
    """The node that it goes back to, as long as that is a handover."""
    home(service, applied)  # refuses a service that is not there
    move = applied.table.entries[f"service.{service}"].move
    if move is UNSET or move.back or not move.hands_over:
        raise Conflict(
            f"service.{service} is not being moved: its last move is complete, was taken back, or began with a backup",
            remedy=f"to move it: holdfast migrate {service} --to NODE",
            code="not_moving",
        )
    return move.source


def plan_abort(
    service: str, applied: Applied, reads: Mapping[str, int] = NOT_ASKED, sealed: Mapping[str, bytes] = NOTHING_SEALED
) -> Plan:
    """Back to the node that it came from. `sealed`: by digest, its secrets sealed again, for that node to open."""
    now, back = home(service, applied), came_from(service, applied)
    where = Placed(back, f"the move to {now} is taken back")
    return _moved(Wish(service, sealed=sealed), where, Move(now, back=True), applied, reads)


def closed(service: str, target: str, applied: Applied) -> dict[str, str]:
    """Secrets of this service that the target could not open, by name: their digests."""
    own = secrets.tag(applied.table, target)
    address = f"service.{service}"
    held = applied.table.entries[address].secrets
    read = {name: secrets.read(applied.contents, digest, name, address) for name, digest in held.items()}
    return {name: held[name] for name, one in read.items() if own not in one.tags}


def _moved(
    wish: Wish,
    where: Placed,
    move: Move | UnsetType,
    applied: Applied,
    reads: Mapping[str, int],
    warnings: tuple[str, ...] = (),
) -> Plan:
    address = f"service.{wish.service}"
    entry = applied.table.entries[address]
    document = applied.service(wish.service)
    fresh = dict(pins.pinned(document, where.node))
    digest = next(iter(fresh), entry.digest)
    entries = {
        **applied.table.entries,
        address: replace(entry, digest=digest, node=where.node, epoch=entry.epoch + 1, move=move),
    }
    formats.require_move(entries[address], reads)
    table = Table(with_sealed(entries, wish.sealed, fresh), applied.table.tombstones)
    secrets.require_readable(table, layered(fresh, applied.contents), address)
    return between(table, applied, fresh, {address: where}, warnings, reads)


def with_sealed(entries: dict[str, Entry], sealed: Mapping[str, bytes], fresh: dict[str, bytes]) -> dict[str, Entry]:
    """`sealed`: by digest, what takes its place, which is added to `fresh`."""
    for old, content in sealed.items():
        new = canonical.digest(content)
        fresh[new] = content
        entries = {name: _resealed(one, old, new) for name, one in entries.items()}
    return entries


def _resealed(entry: Entry, old: str, new: str) -> Entry:
    if old not in entry.secrets.values():
        return entry
    return replace(entry, secrets={name: new if one == old else one for name, one in entry.secrets.items()})
