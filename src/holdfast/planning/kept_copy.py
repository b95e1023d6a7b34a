"""Plan to bring a service back to data that a node kept: of a removed service, or of one that moved away. Pure."""

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.errors import Invalid
from holdfast.model.applied import Applied
from holdfast.model.move import Move
from holdfast.model.plan import Plan
from holdfast.model.revision import Table
from holdfast.planning import formats, pins, secrets
from holdfast.planning.contents import layered
from holdfast.planning.formats import NOT_ASKED
from holdfast.planning.moving import NOTHING_SEALED, with_sealed
from holdfast.planning.placement import Placed
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.step import between


def plan_again(service: str, node: str, before: Table, applied: Applied, reads: Mapping[str, int] = NOT_ASKED) -> Plan:
    """A removed service, as the table before its removal has it, on the node that has its data."""
    address = f"service.{service}"
    entry = before.entries.get(address)
    if entry is None or entry.node != node:
        raise never_there(service, node)
    entries = dict(sorted({**applied.table.entries, address: entry}.items()))
    return plan_rollback(Table(entries, applied.table.tombstones), applied, reads)


def never_there(service: str, node: str) -> Invalid:
    return Invalid(
        f"no revision is known in which service.{service} ran on {node} before it was removed",
        remedy=f'write node = "{node}" into services/{service}.toml, and: holdfast deploy {service}',
        code="not_found",
    )


def plan_kept(
    service: str,
    node: str,
    applied: Applied,
    reads: Mapping[str, int] = NOT_ASKED,
    sealed: Mapping[str, bytes] = NOTHING_SEALED,
) -> Plan:
    """A service that runs elsewhere goes on with the older copy that this node kept. No data moves.
    `sealed`: by digest, its secrets sealed again, for that node to open."""
    address = f"service.{service}"
    entry, document = applied.table.entries[address], applied.service(service)
    fresh = dict(pins.pinned(document, node))
    digest, move = next(iter(fresh), entry.digest), Move(str(entry.node), kept=True)
    kept = replace(entry, digest=digest, node=node, epoch=entry.epoch + 1, move=move)
    formats.require_move(kept, reads)
    entries = with_sealed({**applied.table.entries, address: kept}, sealed, fresh)
    table = Table(entries, applied.table.tombstones)
    secrets.require_readable(table, layered(fresh, applied.contents), address)
    where = Placed(node, f"goes on with the copy of {node}; what {entry.node} wrote since stays there")
    return between(table, applied, fresh, {address: where}, (), reads)
