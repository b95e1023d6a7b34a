"""Which node a service can move to, or why it cannot. Pure."""

from collections.abc import Mapping

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.applied import Applied
from holdfast.model.fleet import Service
from holdfast.model.nearest import hint
from holdfast.model.observation import NodeObservation
from holdfast.planning.placement import Placed, Placer, carries_services, drained_nodes, has_data, is_public, unproxied


class Wish(Struct, frozen=True):
    """`target`: "" lets placement decide. `why`: the reason for the target, where it was chosen before. `backup` and
    `key`: the digest of its receipt, for a source that is dead. `sealed`: secrets that were sealed again, by the digest
    they have now."""

    service: str
    target: str = ""
    backup: str = ""
    key: bytes = b""
    sealed: Mapping[str, bytes] = {}
    aside: bool = False  # data of it that is on the target already is moved aside
    why: str = ""


def home(service: str, applied: Applied) -> str:
    """The node that a service is placed on."""
    entry = applied.table.entries.get(f"service.{service}")
    if entry is None or entry.node is UNSET:
        known = sorted(applied.table.of_kind("service"))
        raise Invalid(
            f"service.{service} is not applied, so it cannot be moved",
            remedy=hint(service, known) + f"applied services are: {', '.join(known[:20]) or 'none'}",
            code="not_applied",
        )
    return entry.node


def target_of(wish: Wish, applied: Applied, seen: Mapping[str, NodeObservation]) -> Placed:
    """Where it moves to, with the reason; refused in words where it cannot run (M-104, M-105)."""
    source, service = home(wish.service, applied), applied.service(wish.service)
    if service.tier == "core":
        raise NotPermitted(
            f'service.{wish.service} has tier = "core": it belongs to the hub node, and is not moved',
            remedy=f'set tier = "worker" in services/{wish.service}.toml and apply; then repeat the command',
            code="core_stays",
        )
    nodes = {name: applied.node(name) for name in applied.table.of_kind("node")}
    from_there = f"moves from {source}" + (" with its data" if has_data(service) else "")
    if not wish.target:
        joined = {name: node for name, node in nodes.items() if name != source and has_joined(name, applied)}
        placer = Placer(joined, seen, applied.table, drained_nodes(applied.table))
        found = placer.place(wish.service, replace(service, node=UNSET), None)
        return Placed(found.node, f"{from_there}; {found.why}")
    node = nodes.get(wish.target)
    workers = [name for name, one in sorted(nodes.items()) if name != source and "worker" in one.roles]
    fit = [name for name in workers if not _refused(name, source, service, applied, seen)]
    others = f"nodes that could take it: {', '.join(fit) or 'none'}"
    if node is None:
        raise Invalid(
            f"the applied revision has no node {wish.target!r}",
            remedy=hint(wish.target, sorted(nodes)) + others,
            code="unknown_node",
        )
    why = _refused(wish.target, source, service, applied, seen)
    if why:
        raise NotPermitted(
            f"service.{wish.service} cannot move to {wish.target}: {why}", remedy=others, code="no_target"
        )
    return Placed(wish.target, wish.why or from_there)


def has_joined(node: str, applied: Applied) -> bool:
    return applied.table.entries[f"node.{node}"].identity is not UNSET


def _refused(target: str, source: str, service: Service, applied: Applied, seen: Mapping[str, NodeObservation]) -> str:
    node, observed = applied.node(target), seen.get(target)
    if target == source:
        return "it is there already"
    if not carries_services(node) or "worker" not in node.roles:
        return f"that node is not a worker (roles: {', '.join(node.roles)})"
    if applied.table.entries[f"node.{target}"].drained:
        return "that node is drained"
    if observed is not None and observed.status == "unhealthy":
        return "that node is not healthy"
    if not has_joined(target, applied):
        return "that node has not joined"
    return (unproxied(node) or "") if is_public(service) else ""
