"""May this resource table follow that one? The rules a signature cannot waive. Pure; the hub asks before it commits."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import Corrupt
from holdfast.model.applied import content
from holdfast.model.fleet import Grade, Node, Service, Storage
from holdfast.model.ids import FLEET, TRUST, kind_of, parse_address
from holdfast.model.plan import Change
from holdfast.model.revision import Entry, Table
from holdfast.model.trust import Trust
from holdfast.planning import removals
from holdfast.planning.diff import changes, grade_of
from holdfast.planning.documents import FleetDocument
from holdfast.planning.table import serving_metadata, tombstones

_SCHEMA: dict[str, type] = {
    "fleet": FleetDocument,
    "trust": Trust,
    "node": Node,
    "service": Service,
    "storage": Storage,
}


class Judged(Struct, frozen=True):
    """What the step from one table to the next amounts to."""

    changes: tuple[Change, ...]
    grade: Grade
    removals: tuple[str, ...]


def judge(
    before: Table, after: Table, old: Mapping[str, bytes], new: Mapping[str, bytes], number: int, detailed: bool = False
) -> Judged:
    """Raise for what no grade allows; else say what changed and which grade must have signed."""
    if FLEET not in after.entries or TRUST not in after.entries:
        raise _unsound("the table lacks the fleet or the trust resource")
    if after.tombstones != tombstones(before, after.entries, number):
        raise _unsound("its tombstones do not record exactly what was removed")
    for address, entry in after.entries.items():
        if before.entries.get(address) != entry:
            _check_entry(address, before, after, new)
    found = changes(before, after, old, new, {}, detailed)
    gone = tuple(change for change in found if change.removes)
    if gone:
        limit = msgspec.json.decode(content(old, before.entries[FLEET].digest, FLEET), type=FleetDocument)
        removals.check(gone, before, limit.settings.removals_max, len(gone))
    demands = tuple(demand for change in found for demand in change.demands)
    return Judged(found, grade_of(demands), tuple(change.address for change in gone))


def _check_entry(address: str, before: Table, after: Table, new: Mapping[str, bytes]) -> None:
    parse_address(address)
    entry, was, stone = after.entries[address], before.entries.get(address), before.tombstones.get(address)
    floor = was.epoch if was else (stone.epoch + 1 if stone else 0)
    if entry.epoch < floor or (was and was.node != entry.node and entry.epoch <= was.epoch):
        raise _unsound(f"the epoch of {address} does not grow")
    kind = kind_of(address)
    if kind == "policy":
        return
    try:
        value: object = msgspec.json.decode(content(new, entry.digest, address), type=_SCHEMA[kind])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise _unsound(f"the content of {address} cannot be read: {trouble}") from trouble
    if isinstance(value, Service):
        _check_service(address, entry, value, after)


def _check_service(address: str, entry: Entry, service: Service, after: Table) -> None:
    if serving_metadata(service) != serving_metadata_of(entry):
        raise _unsound(f"the table says something else about {address} than its content")
    if entry.node is UNSET or f"node.{entry.node}" not in after.entries:
        raise _unsound(f"{address} is placed on a node that is not in the table")


def serving_metadata_of(entry: Entry) -> tuple[object, ...]:
    return (entry.containers, entry.protect, entry.hostnames, entry.ports)


def _unsound(why: str) -> Corrupt:
    return Corrupt(
        f"this revision is not sound: {why}",
        remedy="compile it anew: holdfast plan -o change.plan, sign, apply",
        code="revision_unsound",
    )
