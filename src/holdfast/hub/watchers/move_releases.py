"""Services that move to another node: the old node serves until the new one is proven, then it is released.

A node that loses a service without data keeps it running until the hub hints that the new home reports it converged
and that every edge with a hostname of it leads there. Without that hint two copies run, which is harmless. A hub that
gives it too early could as well have withheld the revision from the new home.
"""

from msgspec import UNSET

from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watcher import NO_HINTS, Hints
from holdfast.hub.watchers.edge_reports import EdgeReports
from holdfast.model.applied import Applied
from holdfast.model.deployment import ServiceState, deployment_of
from holdfast.model.revision import Entry


def state_of(member: Member, address: str) -> ServiceState | None:
    """The state of a service in the node's newest report."""
    name = address.removeprefix("service.")
    report = member.report
    return next((one for one in report.services if one.service == name), None) if report is not None else None


def is_proven(member: Member, address: str, entry: Entry, deployment: str) -> bool:
    """The report that the newest pulse names has the deployment converged, and its containers running: an agent that
    has just started may report the state before its restart. Held is as wanted, too."""
    state, report = state_of(member, address), member.report
    if state is None or report is None or member.pulse_report != member.report_digest or state.applied != deployment:
        return False
    if state.phase == "held":
        return True
    alive = sum(one.service == state.service and one.status == "running" for one in report.containers)
    return state.phase == "converged" and alive >= entry.containers


class MoveReleases:
    """Belongs to the event loop. Hint `released`: services that this node may stop."""

    def __init__(self, registry: Registry, edges: EdgeReports) -> None:
        self._registry = registry
        self._edges = edges
        self._lingering: dict[str, frozenset[str]] = {}  # node → services it runs that belong elsewhere
        self._released: dict[str, tuple[str, ...]] = {}  # node → services it may stop
        self._follow()

    def committed(self, before: Applied | None, after: Applied) -> None:
        self._follow()

    def _follow(self) -> None:
        self._lingering = {}
        self._released = {name: free for name, free in self._released.items() if name in self._registry.members}
        for member in self._registry.members.values():
            self._note(member)
        for member in self._registry.members.values():
            self._release(member)

    def reported(self, member: Member) -> None:
        """The report has what the node still runs, and what arrived there."""
        self._note(member)
        self._release(member)
        self.health_changed(member)

    def follows_pulses(self, node: str) -> bool:
        return False

    def health_changed(self, member: Member) -> None:
        """A home that is silent proves nothing, one that is back does. The same holds for edges."""
        for name, addresses in list(self._lingering.items()):
            if any(self._concerns(member, address) for address in addresses):
                self._release(self._registry.members[name])

    def due(self, loop_s: float) -> float | None:
        """An edge that has been silent for too long no longer holds a service back."""
        for name in list(self._lingering):
            self._release(self._registry.members[name])
        waits = [self._entry(address) for addresses in self._lingering.values() for address in addresses]
        ends = [self._edges.silent_at_s(entry) for entry in waits if entry is not None]
        return min((end_s for end_s in ends if end_s is not None), default=None)

    def hints(self, node: str) -> Hints:
        free = self._released.get(node)
        return {"released": free} if free else NO_HINTS

    def _concerns(self, member: Member, address: str) -> bool:
        return self._home(address) == member.name or self._edges.carry(member, self._entry(address))

    def _entry(self, address: str) -> Entry | None:
        applied = self._registry.applied
        return applied.table.entries.get(address) if applied is not None else None

    def _home(self, address: str) -> str:
        entry = self._entry(address)
        return entry.node if entry is not None and entry.node is not UNSET else ""

    def _note(self, member: Member) -> None:
        report = member.report
        runs = {one.service for one in report.services} if report is not None else set()
        runs |= {one.service for one in report.containers} if report is not None else set()
        found = frozenset(a for a in (f"service.{name}" for name in runs) if self._is_elsewhere(a, member.name))
        if found:
            self._lingering[member.name] = found
        else:
            self._lingering.pop(member.name, None)

    def _is_elsewhere(self, address: str, node: str) -> bool:
        """Placed on another node, or removed from one."""
        applied = self._registry.applied
        return self._home(address) not in ("", node) or (applied is not None and address in applied.table.tombstones)

    def _release(self, member: Member) -> None:
        free = tuple(sorted(a for a in self._lingering.get(member.name, ()) if self._has_arrived(a)))
        if free != self._released.get(member.name, ()):
            self._released[member.name] = free
            if free:
                member.bell.ring()

    def _has_arrived(self, address: str) -> bool:
        entry = self._entry(address)
        if entry is None:
            return True  # an operator removed it
        home = self._registry.members.get(self._home(address))
        if home is None or not home.joined or home.condition.status != "healthy":
            return False
        if entry.containers and not is_proven(home, address, entry, deployment_of(entry)):
            return False
        state = state_of(home, address)
        is_held = state is not None and state.phase == "held"  # then no edge can lead to it
        return is_held or self._edges.lead_there(address, entry)
