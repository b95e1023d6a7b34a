"""Drain a node: which services move, where to, and which stay and why. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Invalid
from holdfast.model.applied import Applied
from holdfast.model.fleet import Service
from holdfast.model.nearest import hint
from holdfast.model.observation import NodeObservation
from holdfast.model.plan import Plan
from holdfast.model.revision import Entry, Table
from holdfast.planning import pairs, secrets
from holdfast.planning.formats import NOT_ASKED
from holdfast.planning.placement import Placed, Placer, drained_nodes, has_data
from holdfast.planning.step import between


class Drained(Struct, frozen=True):
    """The table with the drain mark, and the services moved by the usual placement; `stays` has the others' reasons."""

    table: Table
    placed: dict[str, Placed]
    stays: tuple[str, ...]


def plan_drain(
    node: str,
    applied: Applied,
    seen: Mapping[str, NodeObservation],
    undo: bool = False,
    reads: Mapping[str, int] = NOT_ASKED,
) -> Plan:
    """Mark a node as drained and move what can move; `undo` only removes the mark: nothing moves without need.
    `reads`: node → the newest format that its verified pulse names."""
    if undo:
        entries = marked(node, applied, drained=False)
        return between(Table(entries, applied.table.tombstones), applied, {}, {}, (), reads)
    found = drain(node, applied, seen)
    return between(found.table, applied, {}, found.placed, found.stays, reads)


def drain(name: str, applied: Applied, seen: Mapping[str, NodeObservation]) -> Drained:
    entries = marked(name, applied, drained=True)
    nodes = {node: applied.node(node) for node in applied.table.of_kind("node")}
    placer = Placer(nodes, seen, applied.table, drained_nodes(applied.table) | {name})
    placed: dict[str, Placed] = {}
    stays: list[str] = []
    for one, entry in sorted(applied.table.of_kind("service").items()):
        if entry.node != name:
            continue
        address, service = f"service.{one}", applied.service(one)
        where = placer.place(one, service, name)
        if where.node == name:
            stays.append(f"{address} stays on {name}: {_why_it_stays(address, name, service, placer)}")
            continue
        moved = replace(entry, node=where.node, epoch=entry.epoch + 1, move=msgspec.UNSET)
        closed = _closed_to(where.node, address, moved, entries, applied)
        if closed:
            stays.append(f"{address} stays on {name}: {where.node} cannot open its secrets; {_reseal(closed)}")
        else:
            placed[address], entries[address] = where, moved
    stays += _hostnames(name, applied.table)
    stays += _provided(name, applied.table)
    return Drained(Table(entries, applied.table.tombstones), placed, tuple(stays))


def _hostnames(name: str, table: Table) -> list[str]:
    """A drained edge takes no new hostnames and keeps its own: their public DNS records point to it."""
    found = sorted(h for entry in table.entries.values() for h, route in entry.public.items() if route.edge == name)
    return [f"{hostname} stays on {name}: its public DNS record points there" for hostname in found]


def _provided(name: str, table: Table) -> list[str]:
    """A drained provider goes on: what it gives is on it, or on a server that it reaches."""
    given = sorted(one for one, entry in table.of_kind("provides").items() if entry.node == name)
    found = ((f"provides.{one}", pairs.users(table, f"provides.{one}")) for one in given)
    return [f"{home} stays on {name}: {', '.join(using)}" for home, using in found if using]


def marked(name: str, applied: Applied, drained: bool) -> dict[str, Entry]:
    address = f"node.{name}"
    if address not in applied.table.entries:
        known = sorted(applied.table.of_kind("node"))
        raise Invalid(
            f"the applied revision has no node {name!r}",
            remedy=hint(name, known) + f"applied nodes are: {', '.join(known) or 'none'}",
            code="unknown_node",
        )
    return {**applied.table.entries, address: replace(applied.table.entries[address], drained=drained)}


def _closed_to(
    node: str, address: str, moved: Entry, entries: Mapping[str, Entry], applied: Applied
) -> tuple[str, ...]:
    """Secrets that this node could not open; an operator who can open them has to seal them to it."""
    table = Table({**entries, address: moved}, applied.table.tombstones)
    found = secrets.shut_out(table, secrets.readers(table, address), applied.contents)
    return tuple(reader.secret for reader, _ in found if reader.node == node)


def _reseal(names: tuple[str, ...]) -> str:
    commands = " && ".join(f"holdfast secret rotate {name} --keep" for name in names)
    return f"once the node is drained, run {commands} && holdfast apply, which moves it"


def _why_it_stays(address: str, node: str, service: Service, placer: Placer) -> str:
    """Why it stays, and what would move it."""
    file = f"services/{address[8:]}.toml"
    if service.node is not msgspec.UNSET:
        return f'pinned by node = "{node}"; change that in {file} and apply'
    if has_data(service):
        return f"its data is there; holdfast migrate {address[8:]} moves it with its data"
    if service.tier == "core":
        return f'tier = "core" places it on the hub node; pin it elsewhere with node = "…" in {file} and apply'
    others = "; ".join(f"{one.node} {one.reason}" for one in placer.rejected() if one.node != node)
    return f"no other node can run it ({others or 'there is none'}); apply again when one can"
