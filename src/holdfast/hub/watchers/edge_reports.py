"""Reports of edges about public hostnames: does each lead to where the applied revision places the service?

A silent edge is not waited for: it receives no revision, and it soon serves no client.
"""

from collections.abc import Iterator

from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.model.report import EdgeState
from holdfast.model.revision import Entry
from holdfast.planning.public_routes import carried

SILENT_WINDOWS = 2 / 3  # 60 s of the 90 s after which a node is probed


def state_of(member: Member, hostname: str, service: str) -> EdgeState | None:
    """From the report that its newest pulse names; None without that report."""
    if member.report is None or member.pulse_report != member.report_digest:
        return None
    return member.report.routes.get((hostname, service))


def is_live(member: Member, hostname: str, service: str, entry: Entry) -> bool:
    """The running proxy of that edge has the route, and it leads to where the service is now."""
    state, route = state_of(member, hostname, service), entry.public.get(hostname)
    if state is None or route is None or state.phase != "live":
        return False
    return (state.node, state.epoch, state.backend) == (entry.node, entry.epoch, route.backend)


class EdgeReports:
    """Belongs to the event loop."""

    def __init__(self, registry: Registry, time: HubTime) -> None:
        self._registry = registry
        self._time = time

    def lead_there(self, address: str, entry: Entry) -> bool:
        """Every edge that is not silent leads to where the service is now."""
        service = address.removeprefix("service.")
        return all(
            is_live(edge, hostname, service, entry) or not self._is_waited_for(edge)
            for hostname, edge in self._edges(entry)
        )

    def silent_at_s(self, entry: Entry) -> float | None:
        """When the next of its edges will have been silent for too long."""
        ends = [self._until_s(edge) for _, edge in self._edges(entry) if self._is_waited_for(edge)]
        return min(ends, default=None)

    def carry(self, member: Member, entry: Entry | None) -> bool:
        """Is it one of the edges of that service?"""
        return entry is not None and any(route.edge == member.name for route in carried(entry).values())

    def _edges(self, entry: Entry) -> Iterator[tuple[str, Member]]:
        for hostname, route in carried(entry).items():
            edge = self._registry.members.get(route.edge)
            if edge is not None:
                yield hostname, edge

    def _is_waited_for(self, edge: Member) -> bool:
        if not edge.joined or edge.condition.status == "unhealthy":
            return False
        if edge.report is not None and edge.report.mode == "observe":
            return False
        return self._time.loop_s() < self._until_s(edge)

    def _until_s(self, edge: Member) -> float:
        """After a restart of the hub each edge has the whole time again."""
        last_s = edge.heard_s if edge.heard_s is not None else edge.turn_s
        return max(last_s, edge.turn_s) + self._registry.cadence.window_s * SILENT_WINDOWS
