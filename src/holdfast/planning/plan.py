"""Declared × applied × observed → Plan. Pure and deterministic (I-22): the same inputs give the same signed bytes."""

from collections.abc import Iterator, Mapping, Set
from difflib import get_close_matches
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
    """What planning may look at besides the directory and the ledger."""

    seen: Mapping[str, NodeObservation] = {}
    image_digests: Mapping[str, str] = {}  # what registries answered, tag → digest
    identities: Mapping[str, NodeIdentity] = {}  # node → the key it proved to have, and its issuing certificate
    revoked: Set[str] = frozenset()  # key lines that operators shut out
    addresses: Mapping[str, str] = {}  # node → where it says it is, in a report that its key signed
    only: str | None = None  # plan this one address, leave the rest as applied


def plan(fleet: Fleet, applied: Applied | None, inputs: Inputs = Inputs()) -> Plan:  # noqa: B008 (frozen value)
    texts = documents(fleet)
    drafted = _draft(fleet, texts, applied, inputs)
    table = drafted.table
    if inputs.only is not None:
        if inputs.only not in table.entries:
            raise Invalid(
                f"{inputs.only} is not declared in this fleet directory",
                remedy=_declared_instead(inputs.only, table),
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
    """One service alone brings no edge along that the applied fleet does not have."""
    for hostname, route in table.entries[address].public.items():
        edge = table.entries.get(f"node.{route.edge}")
        if route.edge and (edge is None or edge.proxy != "public"):
            raise Conflict(
                f"{hostname} of {address} is meant for the edge {route.edge}, which is not applied as one yet",
                remedy="holdfast apply",
                code="edge_not_applied",
            )


def plan_undeploy(address: str, applied: Applied | None) -> Plan:
    """Retire one address, whether or not its file is still there."""
    if applied is None or address not in applied.table.entries:
        raise _nothing_to_undeploy(address, table_of(applied))
    return between(without(applied.table, address, applied.head.number + 1), applied, {}, {}, ())


def _nothing_to_undeploy(address: str, table: Table) -> Conflict | Invalid:
    """Gone already is a state of the fleet; a name that is none is a slip."""
    stone = table.tombstones.get(address)
    if stone is not None:
        return Conflict(
            f"{address} was removed in revision {stone.removed_in}, so there is nothing to undeploy",
            remedy="holdfast retired shows the data it left",
            code="not_applied",
        )
    known = sorted(known for known in table.entries if known.startswith("service."))
    return Invalid(
        f"{address} is not applied, so there is nothing to undeploy",
        remedy=f"name one of: {', '.join(known[:20]) or '(no service is applied yet)'}",
        code="not_applied",
    )


def plan_drain(node: str, applied: Applied, seen: Mapping[str, NodeObservation], undo: bool = False) -> Plan:
    """Mark a node as drained and move away what may move; `undo` only lifts the mark, as nothing moves without need."""
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
            continue  # not of this plan: nobody was asked
        missing = [ref for ref in images.unpinned((service,)) if ref not in entry.images]
        found += [
            f"service.{name}: no registry gave a digest for {ref} (none answers, has it, or lets us ask); "
            f"it is applied as a tag, so what runs may change without a plan (pin it: {ref}@sha256:…)"
            for ref in missing
        ]
    found += [
        f"service.{name}: component {component.name} is told PORT={component.env['PORT']}, and no route leads there "
        f"({', '.join(str(route.port) for route in component.routes)}); Holdfast sets no PORT itself, so what it "
        "listens on is yours to say"
        for name, service in fleet.services.items()
        for component in service.components
        if "PORT" in component.env and component.routes
        if component.env["PORT"] not in {str(route.port) for route in component.routes}
    ]
    return tuple(sorted(found))


def unreached(table: Table, only: str | None = None) -> tuple[str, ...]:
    """Warnings: what edges and name servers must know of a node that joined, and nobody has recorded yet."""
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
        f"node.{node}: nobody recorded {' and '.join(sorted(lacking))} yet, so names and public routes of services "
        "there lead nowhere; once its agent runs: holdfast apply (or declare its address in fleet.toml)"
        for node, lacking in sorted(found.items())
    )


def _renamed(fleet: Fleet, applied: Applied | None) -> tuple[str, ...]:
    """Another zone is another authority on every node, and edges go by those that are recorded."""
    if applied is None or not any(entry.public for entry in applied.table.entries.values()):
        return ()
    before = zone_of(applied.fleet().settings)
    if before == zone_of(fleet.settings):
        return ()
    return (
        f"internal_zone changes from {before}: every node issues from another certificate then, which only a second "
        "apply records; until then public names answer 502 (apply, wait a moment, apply again)",
    )


def _declared_instead(address: str, table: Table) -> str:
    """The nearest declared service, and all of them: an address is service.NAME."""
    known = sorted(known for known in table.entries if known.startswith("service."))
    close = get_close_matches(address, known, n=1) or get_close_matches(f"service.{address}", known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}declared services are: {', '.join(known[:20]) or 'none'}"


def explain(fleet: Fleet, applied: Applied | None, inputs: Inputs, address: str) -> tuple[str, tuple[str, ...]]:
    """Why this node: the decision, and every other node with the reason it was passed over. Replayed on demand."""
    texts = documents(fleet)
    drafted = _draft(fleet, texts, applied, inputs)
    if address not in drafted.placed:
        raise Invalid(
            f"{address} is not a declared service, so no node was chosen for it",
            remedy=_declared_instead(address, drafted.table),
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
