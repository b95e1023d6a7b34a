"""Plan that another machine takes the place of a node: its key, and the backups that its services start with. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.model import coverage, mounts
from holdfast.model.applied import Applied
from holdfast.model.move import Move
from holdfast.model.plan import Plan
from holdfast.model.revision import Entry, NodeIdentity, Table
from holdfast.planning import formats, overlay, secrets
from holdfast.planning.formats import NOT_ASKED
from holdfast.planning.moving import with_sealed
from holdfast.planning.placement import Placed
from holdfast.planning.step import between


class Return(Struct, frozen=True):
    """`backup`: the digest of its receipt. `key`: of that backup, sealed to the new machine."""

    service: str
    backup: str
    key: bytes


def in_order(node: str, applied: Applied) -> tuple[str, ...]:
    """The services of this node: tier = "core" first, then by name."""
    entries = applied.table.of_kind("service").items()
    here = [name for name, entry in entries if entry.node is not UNSET and entry.node == node]
    return tuple(sorted(here, key=lambda name: (applied.service(name).tier != "core", name)))


def has_backups(service: str, applied: Applied) -> bool:
    """It has data that must not be begun with nothing. Volumes that are declared without backups are."""
    return coverage.is_backed_up(coverage.of_service(service, applied.service(service)))


def rekeyed(node: str, identity: NodeIdentity, reported: str, applied: Applied) -> Applied:
    """The same revision, with another machine as that node. `reported`: the address that it reports, or ""."""
    nodes = {name: applied.node(name) for name in applied.table.of_kind("node")}
    cidr = applied.fleet().settings.overlay_cidr
    address = overlay.addresses(nodes, applied.table, {node: reported} if reported else {}, cidr)[node]
    entry = replace(applied.table.entries[f"node.{node}"], identity=identity, address=address)
    entries = {**applied.table.entries, f"node.{node}": entry}
    return replace(applied, table=Table(entries, applied.table.tombstones))


def closed(node: str, applied: Applied) -> dict[str, str]:
    """Secrets that this node needs and cannot open: digest → name."""
    table = applied.table
    mine = tuple(one for one in secrets.readers(table) if one.node == node)
    shut = secrets.shut_out(table, mine, applied.contents)
    return {table.entries[one.address].secrets[one.secret]: one.secret for one, _ in shut}


def plan_returns(
    node: str,
    machine: Applied,
    returns: Sequence[Return],
    sealed: Mapping[str, bytes],
    applied: Applied,
    reads: Mapping[str, int] = NOT_ASKED,
    aside: bool = False,
) -> Plan:
    """`machine`: what `rekeyed` made. `sealed`: secrets that were sealed again, by the digest they have now."""
    turns = {name: turn for turn, name in enumerate(in_order(node, applied), 1)}
    entries: dict[str, Entry] = dict(machine.table.entries)
    placed = {}
    for one in returns:
        address = f"service.{one.service}"
        move = Move(node, one.backup, one.key, aside=aside, turn=turns[one.service])
        entries[address] = replace(entries[address], epoch=entries[address].epoch + 1, move=move)
        formats.require_move(entries[address], reads)
        placed[address] = Placed(node, "starts with a backup")
    fresh: dict[str, bytes] = {}
    entries = with_sealed(entries, sealed, fresh)
    warnings = tuple(_needs((one.service for one in returns), node, applied))
    return between(Table(entries, applied.table.tombstones), applied, fresh, placed, warnings, reads)


def _needs(services: Iterable[str], node: str, applied: Applied) -> Iterable[str]:
    for name in services:
        for path in mounts.outside(applied.service(name), name):
            yield f"service.{name} needs {path} on {node}: it is not in the backup"
