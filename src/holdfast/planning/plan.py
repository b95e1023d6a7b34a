"""Make a plan from what is declared, applied and observed. Pure and deterministic (I-22): same input, same bytes."""

from collections.abc import Iterator, Mapping, Set
from typing import TypeVar

from msgspec import UNSET, Struct

from holdfast.errors import Conflict, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied, affected, head_of, table_of
from holdfast.model.fleet import Fleet
from holdfast.model.observation import NodeObservation
from holdfast.model.plan import Plan
from holdfast.model.revision import NodeIdentity, Table
from holdfast.model.route import zone_of
from holdfast.planning import images, secrets
from holdfast.planning.compile import Compiled, compile_revision
from holdfast.planning.contents import layered
from holdfast.planning.diff import changes, grade_of
from holdfast.planning.drain import drain, marked
from holdfast.planning.edges import Edges
from holdfast.planning.kinds.every import documents
from holdfast.planning.placement import Placed
from holdfast.planning.table import (
    Drafted,
    draft,
    limited,
    without,
)

T = TypeVar("T")


class Inputs(Struct, frozen=True):
    """The inputs of planning besides the directory and the ledger."""

    seen: Mapping[str, NodeObservation] = {}
    image_digests: Mapping[str, str] = {}  # tag → digest, from registries
    identities: Mapping[str, NodeIdentity] = {}  # node → the key it proved, and its issuing certificate
    revoked: Set[str] = frozenset()  # revoked key lines
    addresses: Mapping[str, str] = {}  # node → its address, from a report that its key signed
    only: str | None = None  # plan this one address, leave the rest as applied


def plan(fleet: Fleet, applied: Applied | None, inputs: Inputs = Inputs()) -> Plan:  # noqa: B008 (frozen value)
    texts = documents(fleet)
    drafted = _draft(fleet, texts, applied, inputs)
    table = drafted.table
    if inputs.only is not None:
        if inputs.only not in table.entries:
            raise Invalid(
                f"{inputs.only} is not declared in this fleet directory",
                remedy="check the name; holdfast validate lists what is declared",
                code="not_found",
            )
        table = limited(table_of(applied), table, inputs.only)
        _require_edges(table, inputs.only)
    fresh = {entry.digest: texts[address] for address, entry in drafted.table.entries.items()}
    fresh |= {canonical.digest(sealed): sealed for sealed in fleet.secrets.values()}
    held = layered(fresh, applied.contents if applied else {})
    warnings = (
        *_warnings(fleet, table),
        *_renamed(fleet, applied),
        *unreached(table, inputs.only),
        *secrets.require_readable(table, held, inputs.only),
        *secrets.unused(fleet),
    )
    return between(table, applied, fresh, drafted.placed, warnings)


def _draft(fleet: Fleet, texts: Mapping[str, bytes], applied: Applied | None, inputs: Inputs) -> Drafted:
    number = head_of(applied).number + 1
    known = (inputs.seen, inputs.image_digests, number, inputs.identities, inputs.revoked, inputs.addresses)
    return draft(fleet, texts, table_of(applied), *known)


def _require_edges(table: Table, address: str) -> None:
    """A deploy of one service does not add an edge that the applied fleet does not have."""
    for hostname, route in table.entries[address].public.items():
        edge = table.entries.get(f"node.{route.edge}")
        if route.edge and (edge is None or edge.proxy != "public"):
            raise Conflict(
                f"{hostname} of {address} needs the edge {route.edge}, which is not applied as an edge yet",
                remedy="holdfast apply",
                code="edge_not_applied",
            )


def plan_undeploy(address: str, applied: Applied | None) -> Plan:
    """Retire one address, whether or not its file is still there."""
    if applied is None or address not in applied.table.entries:
        raise _nothing_to_undeploy(address, table_of(applied))
    return between(without(applied.table, address, applied.head.number + 1), applied, {}, {}, ())


def _nothing_to_undeploy(address: str, table: Table) -> Conflict | Invalid:
    """An address that is already gone gets another error than an unknown name."""
    stone = table.tombstones.get(address)
    if stone is not None:
        return Conflict(
            f"{address} was removed in revision {stone.removed_in} already",
            remedy="holdfast retired lists the data it left",
            code="not_applied",
        )
    known = sorted(known for known in table.entries if known.startswith("service."))
    return Invalid(
        f"{address} is not applied, so it cannot be undeployed",
        remedy=f"name one of: {', '.join(known[:20]) or '(no service is applied yet)'}",
        code="not_applied",
    )


def plan_drain(node: str, applied: Applied, seen: Mapping[str, NodeObservation], undo: bool = False) -> Plan:
    """Mark a node as drained and move what can move; `undo` only removes the mark: nothing moves without need."""
    if undo:
        entries = marked(node, applied, drained=False)
        return between(Table(entries, applied.table.tombstones), applied, {}, {}, ())
    found = drain(node, applied, seen)
    return between(found.table, applied, {}, found.placed, found.stays)


def between(
    table: Table,
    applied: Applied | None,
    fresh: Mapping[str, bytes],
    placed: Mapping[str, Placed],
    warnings: tuple[str, ...],
) -> Plan:
    before = table_of(applied)
    if applied is not None and before.entries == table.entries:
        return Plan(applied.head, (), "apply", None, warnings)
    compiled = compile_revision(table, applied, fresh)
    old = applied.contents if applied else {}
    found = changes(before, table, old, layered(compiled.candidate.blobs, old), placed)
    grade = grade_of(tuple(demand for change in found for demand in change.demands))
    return Plan(head_of(applied), found, grade, compiled.candidate, warnings, touched(compiled, applied))


def touched(compiled: Compiled, applied: Applied | None) -> tuple[str, ...]:
    """Nodes whose manifest differs from the applied one; a change of trust concerns them all."""
    before = applied.header.manifests if applied and applied.header.trust == compiled.header.trust else {}
    return affected(before, compiled.header.manifests)


def _warnings(fleet: Fleet, table: Table) -> tuple[str, ...]:
    found = []
    for name, service in fleet.services.items():
        entry = table.entries.get("service." + name)
        if entry is None:
            continue  # not part of this plan: its registry was not asked
        missing = [ref for ref in images.unpinned((service,)) if ref not in entry.images]
        found += [
            f"service.{name}: no registry gave a digest for {ref} (no answer, no such image, or no access); the tag is "
            f"applied as it is, so what runs may change without a plan (to pin it: {ref}@sha256:…)"
            for ref in missing
        ]
    found += [
        f"service.{name}: component {component.name} has PORT={component.env['PORT']} in its environment, but no route "
        f"uses that port ({', '.join(str(route.port) for route in component.routes)}); Holdfast does not set PORT: "
        "check which port it listens on"
        for name, service in fleet.services.items()
        for component in service.components
        if "PORT" in component.env and component.routes
        if component.env["PORT"] not in {str(route.port) for route in component.routes}
    ]
    return tuple(sorted(found))


def unreached(table: Table, only: str | None = None) -> tuple[str, ...]:
    """Warnings: what edges and name servers need of a node that joined, and no apply has recorded yet."""
    found: dict[str, set[str]] = {}
    for address, entry in table.entries.items():
        if not entry.names or not entry.containers or only not in (None, address):
            continue
        home = table.entries.get(f"node.{entry.node}")
        if home is None or home.identity is UNSET:
            continue
        if not home.address:
            found.setdefault(str(entry.node), set()).add("its address in the overlay")
        if entry.public and not home.identity.certificate:
            found.setdefault(str(entry.node), set()).add("the certificate it issues from")
    return tuple(
        f"node.{node}: the ledger does not have {' and '.join(sorted(lacking))} yet, so names and public routes of "
        "services there do not work; once its agent runs: holdfast apply (or declare its address in fleet.toml)"
        for node, lacking in sorted(found.items())
    )


def _renamed(fleet: Fleet, applied: Applied | None) -> tuple[str, ...]:
    """Another zone needs another issuing certificate on every node, and edges trust only recorded ones."""
    if applied is None or not any(entry.public for entry in applied.table.entries.values()):
        return ()
    before = zone_of(applied.fleet().settings)
    if before == zone_of(fleet.settings):
        return ()
    return (
        f"internal_zone changes from {before}: every node then issues from a new certificate, which only a second "
        "apply records; until then public names answer 502 (apply, wait a minute, apply again)",
    )


def explain(fleet: Fleet, applied: Applied | None, inputs: Inputs, address: str) -> tuple[str, tuple[str, ...]]:
    """Why this node: the decision, and every other node with the reason why not. Computed on demand."""
    texts = documents(fleet)
    drafted = _draft(fleet, texts, applied, inputs)
    if address not in drafted.placed:
        raise Invalid(
            f"{address} is not a declared service, so it has no placement",
            remedy="name a service, for example --explain service.web",
            code="not_found",
        )
    chosen = drafted.placed[address]
    reasons = []
    for name in sorted(fleet.nodes):
        refusal = drafted.placer.refusals[name]
        if name != chosen.node:
            runs = drafted.placer.load[name]
            reasons.append(
                f"{name} {refusal}" if refusal else f"{name} was not chosen (runs {runs} containers in this plan)"
            )
    answered = ""
    for hostname, route in drafted.table.entries[address].public.items():
        if hostname in drafted.edged:
            answered += f"; {hostname} → {route.edge}: {drafted.edged[hostname].why}"
            reasons += _other_edges(hostname, route.edge, drafted.edges)
    return f"{chosen.node}: {chosen.why}{answered}", tuple(reasons)


def _other_edges(hostname: str, chosen: str, edges: Edges) -> Iterator[str]:
    for name, load in edges.load.items():
        if name != chosen:
            why = edges.refusals[name] or f"was not chosen (has {load} public routes in this plan)"
            yield f"{name} for {hostname}: {why}"
