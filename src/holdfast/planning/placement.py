"""Choose the node of each service, with the reason. Pure, deterministic, sticky (M-35, M-36, M-37, C-14)."""

from collections.abc import Iterable, Mapping, Set
from heapq import heapify, heappop, heappush

from msgspec import UNSET, Struct

from holdfast.errors import Invalid
from holdfast.model.fleet import Node, Service
from holdfast.model.observation import NodeObservation
from holdfast.model.revision import Table

Refusal = str


class Placed(Struct, frozen=True):
    """A decision with its reason."""

    node: str
    why: str


class Rejected(Struct, frozen=True):
    node: str
    reason: Refusal


def containers(service: Service) -> int:
    return sum(component.replicas for component in service.components)


def has_data(service: Service) -> bool:
    return any(component.volumes for component in service.components)


def carries_services(node: Node) -> bool:
    """An edge-only node refuses application containers (C-23)."""
    return any(role != "edge" for role in node.roles)


def is_public(service: Service) -> bool:
    return any(route.public for component in service.components for route in component.routes)


def unproxied(node: Node) -> Refusal | None:
    """Why a public service cannot run there: edges reach it over TLS only, which needs a proxy (M-48)."""
    return 'has no proxy (proxy = "none")' if node.proxy == "none" else None


def drained_nodes(table: Table) -> frozenset[str]:
    return frozenset(name for name, entry in table.of_kind("node").items() if entry.drained)


def refuses_worker(node: Node, seen: NodeObservation | None, drained: bool = False) -> Refusal | None:
    """Why automatic placement skips this node. A node that was never seen is eligible."""
    if "worker" not in node.roles:
        return f"is not a worker (roles: {', '.join(node.roles)})"
    if drained:
        return "is drained"
    if seen is not None and seen.status == "unhealthy":
        return "is unhealthy"
    return None


def _runner_up(load: int, others_load: int, other: str) -> str:
    return f", tie with {other}" if load == others_load else f", next is {other} with {others_load}"


class Placer:
    """Places services one after another; its load is what is applied plus what it assigned."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        seen: Mapping[str, NodeObservation],
        applied: Table,
        drained: Set[str] | None = None,
    ) -> None:
        """`drained`: nodes that take no new services; by default as applied."""
        self._nodes = nodes
        self._seen = seen
        self._drained = drained_nodes(applied) if drained is None else drained
        self.load = dict.fromkeys(sorted(nodes), 0)
        for address, entry in applied.entries.items():
            if entry.node is not UNSET and entry.node in self.load and address.startswith("service."):
                self.load[entry.node] += entry.containers
        self.refusals = {
            name: refuses_worker(node, seen.get(name), name in self._drained) for name, node in nodes.items()
        }
        self._refused_count = sum(reason is not None for reason in self.refusals.values())
        self._queue = [(load, name) for name, load in self.load.items() if self.refusals[name] is None]
        heapify(self._queue)
        hubs = [name for name, node in nodes.items() if "hub" in node.roles]
        self._hubs = sorted(hubs, key=lambda name: (name in self._drained, name))

    def place(self, name: str, service: Service, current: str | None) -> Placed:
        """Pin before tier before stickiness before load."""
        if service.node is not UNSET:
            return self._pinned(name, service, service.node)
        if service.tier == "core":
            return self._core(name, service, current)
        node = self._nodes.get(current) if current is not None else None
        if current is not None and node is not None and "worker" in node.roles and not self._refuses(node, service):
            return self._stays(name, service, current)
        return self._least_loaded(name, service)

    def _stays(self, name: str, service: Service, current: str) -> Placed:
        """Sticky, unless its node is drained: then a service without data moves, if another node can run it."""
        if current not in self._drained:
            return Placed(current, "stays where it is")
        if has_data(service):
            return Placed(current, f"stays where its data is, although {current} is drained")
        if not any(self._refuses(self._nodes[node], service) is None for _, node in self._queue):
            return Placed(current, f"stays where it is: {current} is drained, but no other node fits")
        found = self._least_loaded(name, service)
        self.load[current] -= containers(service)
        return Placed(found.node, f"{current} is drained; {found.why}")

    def _refuses(self, node: Node, service: Service) -> Refusal | None:
        if not carries_services(node):
            return "is an edge and takes no application containers"
        return unproxied(node) if is_public(service) else None

    def _pinned(self, name: str, service: Service, pin: str) -> Placed:
        node = self._nodes.get(pin)
        reason = "is not in fleet.toml" if node is None else self._refuses(node, service)
        if reason is not None:
            raise Invalid(
                f"service.{name} is pinned to {pin}, which {reason}",
                remedy=f'change node = "{pin}" in services/{name}.toml to one of: {", ".join(self._carriers(service))}',
                code="no_node_fits",
            )
        return Placed(pin, f'pinned by node = "{pin}"')

    def _core(self, name: str, service: Service, current: str | None) -> Placed:
        hubs = [hub for hub in self._hubs if self._refuses(self._nodes[hub], service) is None]
        if current is not None and current in hubs:
            return Placed(current, 'stays where it is (tier = "core")')
        if not hubs:
            closed = f"{self._hubs[0]} {unproxied(self._nodes[self._hubs[0]])}" if self._hubs else ""
            raise Invalid(
                f'service.{name} has tier = "core" but ' + (closed or "no node has the role hub"),
                remedy='give one node in fleet.toml roles = ["hub", …], or set tier = "worker"',
                code="no_node_fits",
            )
        return Placed(hubs[0], 'tier = "core" places it on the hub node')

    def _least_loaded(self, name: str, service: Service) -> Placed:
        closed = self._put_aside(service)
        if not self._queue:
            reasons = [f"{r.node} {r.reason}" for r in self.rejected()]
            reasons += [f"{node} {unproxied(self._nodes[node])}" for _, node in sorted(closed)]
            raise Invalid(
                f"no node fits service.{name}: " + ("; ".join(reasons) or "fleet.toml declares no nodes"),
                remedy='add a [[nodes]] entry with roles = ["worker"] to fleet.toml, or pin it with node = "…"',
                code="no_node_fits",
            )
        load, node = heappop(self._queue)
        runner_up = _runner_up(load, *self._queue[0]) if self._queue else ""
        self.load[node] = load + containers(service)
        for one in ((self.load[node], node), *closed):
            heappush(self._queue, one)
        rejected = f"; {self._refused_count} not eligible" if self._refused_count else ""
        return Placed(node, f"{node} has the fewest containers: {load}{runner_up}{rejected}")

    def _put_aside(self, service: Service) -> list[tuple[int, str]]:
        """Nodes that would be next but cannot run this service; taken out of the queue for this one choice."""
        found = []
        while self._queue and is_public(service) and unproxied(self._nodes[self._queue[0][1]]):
            found.append(heappop(self._queue))
        return found

    def rejected(self) -> tuple[Rejected, ...]:
        return tuple(Rejected(name, why) for name, why in sorted(self.refusals.items()) if why is not None)

    def _carriers(self, service: Service) -> Iterable[str]:
        found = [name for name, node in sorted(self._nodes.items()) if self._refuses(node, service) is None]
        return found or ["(none declared)"]
