"""Explain the placement of one service: the chosen node, and why no other one. Pure."""

from collections.abc import Iterator

from holdfast.errors import Invalid
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.model.size import counted
from holdfast.planning.edges import Edges
from holdfast.planning.kinds.every import documents
from holdfast.planning.plan import Inputs, declared_instead, drafted_table


def explain(fleet: Fleet, applied: Applied | None, inputs: Inputs, address: str) -> tuple[str, tuple[str, ...]]:
    """Why this node: the decision, and every other node with the reason why not. Computed on demand."""
    texts = documents(fleet)
    drafted = drafted_table(fleet, texts, applied, inputs)
    if address not in drafted.placed:
        raise Invalid(
            f"{address} is not a declared service, so it has no placement",
            remedy=declared_instead(address, drafted.table),
            code="not_found",
        )
    chosen = drafted.placed[address]
    reasons = []
    for name in sorted(fleet.nodes):
        refusal = drafted.placer.refusals[name]
        if name != chosen.node:
            runs = counted(drafted.placer.load[name], "container")
            reasons.append(f"{name} {refusal}" if refusal else f"{name} was not chosen (runs {runs} in this plan)")
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
