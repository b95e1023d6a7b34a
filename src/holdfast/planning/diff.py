"""The changes between two resource tables, each with its reason, grade and blast radius. Pure."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import Corrupt
from holdfast.model.applied import content
from holdfast.model.fleet import Grade, Service
from holdfast.model.ids import kind_of
from holdfast.model.plan import Blast, Change, ChangeKind, Demand
from holdfast.model.revision import Entry, Table
from holdfast.model.rules import NEWEST, Rules
from holdfast.model.trust import higher
from holdfast.planning import grades, secrets
from holdfast.planning.bounds import Bounds
from holdfast.planning.kinds.every import kind_at
from holdfast.planning.kinds.kind import Step
from holdfast.planning.kinds.service_grades import volumes
from holdfast.planning.placement import Placed

NOWHERE = Placed("", "")


def changes(
    before: Table,
    after: Table,
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
    placed: Mapping[str, Placed],
    detailed: bool = True,
    rules: Rules = NEWEST,
) -> tuple[Change, ...]:
    """`old` and `new` return contents by digest. Order: created and changed addresses, then removed ones.

    Without `detailed` the fields and the blast radius stay empty: a check does not show them.
    """
    bounds = None if rules == "first" else Bounds(before, after, old, new)
    found = [
        _changed(address, before, after, old, new, placed.get(address, NOWHERE), bounds)
        for address, entry in after.entries.items()
        if before.entries.get(address) != entry
    ]
    gone = [(address, entry) for address, entry in before.entries.items() if address not in after.entries]
    found += [_removed(address, entry, rules) for address, entry in gone]
    if not detailed:
        return tuple(found)
    shown = (_detailed(change, before, after, old, new) for change in found)
    return _with_rename_hints(tuple(shown), before, after)


def grade_of(demands: tuple[Demand, ...]) -> Grade:
    grade: Grade = "apply"
    for demand in demands:
        grade = higher(grade, demand.grade)
    return grade


def _changed(
    address: str,
    table: Table,
    target: Table,
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
    where: Placed,
    bounds: Bounds | None,
) -> Change:
    before, stone = table.entries.get(address), table.tombstones.get(address)
    after = target.entries[address]
    buried = (lambda: content(old, stone.digest, f"the removed {address}")) if stone else None
    demands = grades.demands(_step(address, before, after, old, new, buried, "first" if bounds is None else NEWEST))
    if after.secrets:
        demands += tuple(secrets.demands(address, table, target, old, new))
    claims: tuple[str, ...] = ()
    if bounds is not None and kind_of(address) == "service":
        demands += tuple(bounds.demands(address))
        claims = tuple(bounds.claims(address))
    node = "" if after.node is UNSET else after.node
    why = "; ".join(filter(None, (where.why, kind_at(address).why(before, after))))
    if before is None:
        return Change(address, "create", node, grade_of(demands), why, demands, claims=claims)
    moved_from = "" if before.node is UNSET or before.node == node else before.node
    kind: ChangeKind = "destroy" if any(demand.gives_up_data for demand in demands) else "update"
    kind = "move" if moved_from else kind
    return Change(address, kind, node, grade_of(demands), why, demands, moved_from=moved_from, claims=claims)


def _step(
    address: str,
    before: Entry | None,
    after: Entry | None,
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
    buried: Callable[[], bytes] | None = None,
    rules: Rules = NEWEST,
) -> Step:
    return Step(
        address,
        before,
        after,
        lambda: content(old, before.digest if before else "", address),
        lambda: content(new, after.digest if after else "", address),
        buried,
        rules,
    )


def _detailed(
    change: Change, before: Table, after: Table, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> Change:
    """The same change with its fields and its blast radius."""
    was, becomes = before.entries.get(change.address), after.entries.get(change.address)
    if was is None and becomes is not None:
        return replace(change, blast=_blast(becomes, becomes, None))
    if was is not None and becomes is None:
        return replace(change, blast=_blast(was, was, _service(change.address, was, old)))
    assert was is not None and becomes is not None
    fields = tuple(kind_at(change.address).fields(_step(change.address, was, becomes, old, new)))
    notes = (*change.notes, *secrets.words(was, becomes))
    blast = _blast(was, becomes, _service(change.address, becomes, new))
    return replace(change, fields=fields, notes=notes, blast=blast)


def _service(address: str, entry: Entry, contents: Mapping[str, bytes]) -> bytes | None:
    """None also if the ledger has lost it: a service can be removed without it."""
    if kind_of(address) != "service":
        return None
    try:
        return content(contents, entry.digest, address)
    except Corrupt:
        return None


def _removed(address: str, entry: Entry, rules: Rules) -> Change:
    demands = grades.demands(Step(address, entry, None, lambda: b"", lambda: b"", rules=rules))
    node = "" if entry.node is UNSET else entry.node
    kind: ChangeKind = "destroy" if any(demand.gives_up_data for demand in demands) else "retire"
    removed = "removed from the fleet"
    why = f"{removed}; its data, if any, stays on the node" if kind_of(address) == "service" else removed
    notes = ("protected in the ledger: an apply refuses to remove it",) if entry.protect else ()
    return Change(address, kind, node, grade_of(demands), why, demands, removes=True, notes=notes)


def _blast(before: Entry, after: Entry, service: bytes | None) -> Blast:
    nodes = {node for node in (before.node, after.node) if node is not UNSET}
    nodes |= {route.edge for entry in (before, after) for route in entry.public.values() if route.edge}
    kept: tuple[str, ...] = ()
    if service is not None:
        declared = msgspec.json.decode(service, type=Service)
        kept = tuple(sorted(name for _, name in volumes(declared)))
    return Blast(
        tuple(sorted(str(node) for node in nodes)),
        tuple(sorted({*before.hostnames, *after.hostnames})),
        max(before.containers, after.containers),
        kept,
    )


def _with_rename_hints(found: tuple[Change, ...], before: Table, after: Table) -> tuple[Change, ...]:
    """A retired and a created service with the same content: probably one service under a new name."""
    created = {
        after.entries[change.address].digest: change.address
        for change in found
        if change.kind == "create" and change.address.startswith("service.")
    }
    hints: dict[str, str] = {}
    for change in found:
        twin = created.get(before.entries[change.address].digest) if change.kind == "retire" else None
        if twin:
            hints[change.address] = f"looks like a rename to {twin}: the data stays with {change.address}"
            hints[twin] = f"looks like a rename of {change.address}: it starts with empty volumes"
    if not hints:
        return found
    return tuple(replace(c, notes=(*c.notes, hints[c.address])) if c.address in hints else c for c in found)
