"""Two resource tables compared: the changes, each explained, graded and with its blast radius. Pure."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model.applied import content, plain
from holdfast.model.fleet import Grade, Service
from holdfast.model.ids import kind_of
from holdfast.model.plan import Blast, Change, ChangeKind, Demand, FieldChange
from holdfast.model.revision import Entry, Table
from holdfast.model.route import PublicRoute
from holdfast.model.trust import higher
from holdfast.planning import alerts, grades, identity, secrets
from holdfast.planning.fields import differences
from holdfast.planning.placement import Placed

NOWHERE = Placed("", "")


def changes(
    before: Table,
    after: Table,
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
    placed: Mapping[str, Placed],
    detailed: bool = True,
) -> tuple[Change, ...]:
    """`old` and `new` answer contents by digest. Order: what is made or changed by address, then what goes.

    Without `detailed` the fields and the blast radius stay empty: who only judges shows them to nobody.
    """
    found = [
        _changed(address, before, after, old, new, placed.get(address, NOWHERE))
        for address, entry in after.entries.items()
        if before.entries.get(address) != entry
    ]
    found += [_removed(address, entry) for address, entry in before.entries.items() if address not in after.entries]
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
    address: str, table: Table, target: Table, old: Mapping[str, bytes], new: Mapping[str, bytes], where: Placed
) -> Change:
    before, stone = table.entries.get(address), table.tombstones.get(address)
    after = target.entries[address]
    demands = grades.demands(
        address,
        before,
        after,
        lambda: content(old, before.digest if before else "", address),
        lambda: content(new, after.digest, address),
        (lambda: content(old, stone.digest, f"the removed {address}")) if stone else None,
    )
    if after.secrets:
        demands += tuple(secrets.demands(address, table, target, old, new))
    node = "" if after.node is UNSET else after.node
    said = _why_of_node(before, after) if kind_of(address) == "node" else public_words(before, after)
    why = "; ".join(filter(None, (where.why, said)))
    if before is None:
        return Change(address, "create", node, grade_of(demands), why, demands)
    moved_from = "" if before.node is UNSET or before.node == node else before.node
    kind: ChangeKind = "destroy" if any(demand.gives_up_data for demand in demands) else "update"
    kind = "move" if moved_from else kind
    return Change(address, kind, node, grade_of(demands), why, demands, moved_from=moved_from)


def _why_of_node(before: Entry | None, after: Entry) -> str:
    reasons = [identity.why(before, after)]
    if before is not None and before.address != after.address:
        reasons.append(f"is reached at {after.address}" if after.address else "has no known address any more")
    if before is not None and before.proxy and before.proxy != after.proxy:
        reasons.append(f"its proxy becomes {after.proxy}")
    if (before is not None and before.drained) != after.drained:
        drained = "is drained: takes no new services, and those without data move away"
        reasons.append(drained if after.drained else "takes services again")
    return "; ".join(filter(None, reasons))


def public_words(before: Entry | None, after: Entry) -> str:
    """What becomes public, moves between edges or is public no more; "" if nothing does."""
    was = before.public if before is not None else {}
    words = []
    for hostname in sorted(was.keys() | after.public.keys()):
        old, new = was.get(hostname), after.public.get(hostname)
        if new is None:
            words.append(f"{hostname} is public no more")
        elif old is None:
            words.append(f"{hostname} becomes public on {new.edge or 'no edge yet'}")
        elif old.edge != new.edge:
            words.append(f"{hostname} moves from {old.edge or 'no edge'} to {new.edge or 'no edge'}")
    return "; ".join(words)


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
    fields = tuple(_field_changes(change.address, was, becomes, old, new))
    notes = (*change.notes, *secrets.words(was, becomes))
    blast = _blast(was, becomes, _service(change.address, becomes, new))
    return replace(change, fields=fields, notes=notes, blast=blast)


def _service(address: str, entry: Entry, contents: Mapping[str, bytes]) -> bytes | None:
    return contents.get(entry.digest) if kind_of(address) == "service" else None


def _removed(address: str, entry: Entry) -> Change:
    demands = tuple(grades.removed(address))
    node = "" if entry.node is UNSET else entry.node
    kind: ChangeKind = "destroy" if any(demand.gives_up_data for demand in demands) else "retire"
    why = "no longer declared; its data stays on the node" if kind_of(address) == "service" else "no longer declared"
    notes = ("protected in the ledger: an apply refuses to remove it",) if entry.protect else ()
    return Change(address, kind, node, grade_of(demands), why, demands, removes=True, notes=notes)


def _field_changes(
    address: str, before: Entry, after: Entry, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> Iterator[FieldChange]:
    if before.digest != after.digest:
        was, becomes = content(old, before.digest, address), content(new, after.digest, address)
        if kind_of(address) == "policy":
            yield FieldChange("text", before.digest[:12], after.digest[:12])
        elif kind_of(address) == "alert":
            yield from differences(alerts.masked(was), alerts.masked(becomes))
        else:
            yield from differences(plain(was), plain(becomes))
    if before.identity != after.identity:
        yield from differences({"identity": _identity(before)}, {"identity": _identity(after)})
    if before.drained != after.drained:
        yield FieldChange("drained", before.drained, after.drained)
    for name in ("address", "proxy", "dns"):
        if (was_said := getattr(before, name)) != (is_said := getattr(after, name)):
            yield FieldChange(name, was_said or None, is_said or None)
    if before.names != after.names:
        yield FieldChange("names", list(before.names), list(after.names))
    for hostname in sorted(before.public.keys() | after.public.keys()):
        was_route, is_route = before.public.get(hostname), after.public.get(hostname)
        if was_route != is_route:
            yield FieldChange(f"public {hostname}", _route(was_route), _route(is_route))
    if before.node != after.node:
        yield FieldChange("placement", before.node or None, after.node or None)
    if before.epoch != after.epoch:
        yield FieldChange("epoch", before.epoch, after.epoch)
    if before.applies_to != after.applies_to:
        yield FieldChange("applies_to", list(before.applies_to or ()), list(after.applies_to or ()))
    for reference in sorted(before.images.keys() | after.images.keys()):
        was_digest, is_digest = before.images.get(reference), after.images.get(reference)
        if was_digest != is_digest:
            yield FieldChange(f"image {reference}", was_digest, is_digest)
    for name in sorted(before.secrets.keys() | after.secrets.keys()):
        was_sealed, is_sealed = before.secrets.get(name), after.secrets.get(name)
        if was_sealed != is_sealed:
            yield FieldChange(f"secret {name}", was_sealed and was_sealed[:12], is_sealed and is_sealed[:12])


def _route(route: PublicRoute | None) -> str | None:
    if route is None:
        return None
    return f"{route.edge or 'no edge'} → {route.backend}:{route.listener} ({route.mode})"


def _identity(entry: Entry) -> dict[str, str]:
    known = entry.identity
    if known is UNSET:
        return {}
    issuer = {"issuer": known.issuer} if known.issuer else {}
    return {"fingerprint": identity.short(known.key), "key": known.key, **issuer}


def _blast(before: Entry, after: Entry, service: bytes | None) -> Blast:
    nodes = {node for node in (before.node, after.node) if node is not UNSET}
    nodes |= {route.edge for entry in (before, after) for route in entry.public.values() if route.edge}
    kept: tuple[str, ...] = ()
    if service is not None:
        declared = msgspec.json.decode(service, type=Service)
        kept = tuple(sorted(name for _, name in grades.volumes(declared)))
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
