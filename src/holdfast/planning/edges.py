"""Assign public hostnames to edges, and refuse what no edge may serve. Pure, deterministic, sticky (M-146)."""

import re
from collections.abc import Mapping, Set
from heapq import heapify, heappop, heappush
from typing import Literal

from msgspec import UNSET

from holdfast.errors import Invalid
from holdfast.model.fleet import Node, Settings
from holdfast.model.revision import Table
from holdfast.model.route import LISTENERS, EdgeRoute, within, zone_of
from holdfast.planning import overlay
from holdfast.planning.complaint import quoted
from holdfast.planning.placement import Placed, Refusal, Rejected, drained_nodes

ProxyKind = Literal["internal", "public", "none"]

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOSTNAME = rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\Z"  # compiled where it is used (ADR 0003)
_NUMBER = r"([0-9]+|0x[0-9a-f]*)\Z"  # what a browser reads as the last part of an IPv4 address


# ---- names ----------------------------------------------------------------------------------------------------------


def form_complaint(name: str) -> str | None:
    """Why this is not one plain hostname in lower case, or None."""
    if re.match(_HOSTNAME, name) is None:
        return f"{quoted(name)} is not a plain hostname in lower case"
    if re.match(_NUMBER, name.rpartition(".")[2]):
        return f"{quoted(name)} reads as an IP address"
    return None


def hostname_complaint(hostname: str, settings: Settings) -> str | None:
    """Why no edge may serve this public name, or None: command line, hub and edge use this check (M-24, I-17)."""
    if wrong := form_complaint(hostname):
        return wrong
    if not any(within(hostname, domain) for domain in settings.public_domains):
        domains = ", ".join(settings.public_domains) or "there are none"
        return f"{hostname} is not within the fleet's public_domains ({domains})"
    zone = zone_of(settings)
    if within(hostname, zone):
        return f"{hostname} is within the internal zone {zone}, which is never public"
    return None


def internal_complaint(name: str, settings: Settings) -> str | None:
    """Why this cannot be an internal name of a service, or None."""
    if wrong := form_complaint(name):
        return wrong
    zone = zone_of(settings)
    if name == zone or not within(name, zone):
        return f"{name} is not within the internal zone {zone}"
    if within(name, f"nodes.{zone}"):
        return f"{name} is reserved for nodes, whose own names end in nodes.{zone}"
    return None


def backend_complaint(route: EdgeRoute, settings: Settings) -> str | None:
    """Why an edge may not route there, or None: an internal name, a port of a proxy, and literal addresses in the
    overlay, so that no answer of a name server can change them (M-25, M-48, S09)."""
    if wrong := internal_complaint(route.backend, settings):
        return f"the backend {wrong}"
    if route.port not in LISTENERS:
        return f"the backend's port {route.port} is not a listener of a proxy"
    if not route.address:
        return f"the overlay address of {route.node} is not known"
    for place in ((route.node, route.address), *((other.node, other.address) for other in route.others)):
        if wrong := overlay.outside(place[1], settings.overlay_cidr):
            return f"the backend on {place[0]}: {wrong}"
    return None


# ---- nodes ----------------------------------------------------------------------------------------------------------


def proxy_of(node: Node) -> ProxyKind:
    """As declared, else by role: an edge listens on the internet, every other node in the fleet (C-24)."""
    if node.proxy is not UNSET:
        return node.proxy
    return "public" if "edge" in node.roles else "internal"


def is_edge(node: Node) -> bool:
    return "edge" in node.roles and proxy_of(node) == "public"


def refuses_route(node: Node, drained: bool = False) -> Refusal | None:
    """Why this node cannot become the edge of a new public hostname."""
    if "edge" not in node.roles:
        return f"is not an edge (roles: {', '.join(node.roles)})"
    if proxy_of(node) != "public":
        return f"is an edge whose proxy is {proxy_of(node)}"
    return "is drained" if drained else None


class Edges:
    """Assigns hostnames to edges one after another; its load is what is applied plus what it assigned."""

    def __init__(self, nodes: Mapping[str, Node], applied: Table, drained: Set[str] | None = None) -> None:
        self._drained = drained_nodes(applied) if drained is None else drained
        self.refusals = {name: refuses_route(node, name in self._drained) for name, node in nodes.items()}
        self._all = {name for name, node in nodes.items() if is_edge(node)}
        self.load = dict.fromkeys(sorted(self._all), 0)
        self._before: dict[str, str] = {}
        for entry in applied.entries.values():
            for hostname, route in entry.public.items():
                if route.edge in self.load:
                    self._before[hostname] = route.edge
                    self.load[route.edge] += 1
        self._queue = [(load, name) for name, load in self.load.items() if self.refusals[name] is None]
        heapify(self._queue)

    @property
    def any(self) -> bool:
        return bool(self._all)

    def choose(self, hostname: str) -> Placed | None:
        """Stickiness before load: operators make public DNS records by hand, for the edge chosen first. None if no
        edge takes it."""
        before = self._before.get(hostname)
        if before is not None:
            return Placed(before, "stays on its edge")
        if not self._queue:
            return None
        load, name = heappop(self._queue)
        runner_up = f", next is {self._queue[0][1]} with {self._queue[0][0]}" if self._queue else ""
        self.load[name] = load + 1
        heappush(self._queue, (self.load[name], name))
        return Placed(name, f"fewest public routes ({load}{runner_up})")

    def rejected(self) -> tuple[Rejected, ...]:
        """Edges that take nothing new, and why; other nodes are no candidates."""
        return tuple(
            Rejected(name, why) for name, why in sorted(self.refusals.items()) if why is not None and name in self._all
        )

    def no_edge(self, service: str, hostname: str) -> Invalid:
        closed = "; ".join(f"{one.node} {one.reason}" for one in self.rejected())
        return Invalid(
            f"service.{service} wants {hostname} to be public, but no edge can serve it: "
            + (closed or "no node has the role edge"),
            remedy='give a node in fleet.toml roles = ["edge", …], end the drain of one, or set public = false in '
            f"services/{service}.toml",
            code="no_edge",
        )
