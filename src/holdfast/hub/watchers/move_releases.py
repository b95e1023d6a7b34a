"""Services on their way to another node: the old one serves until the new one is proven, then it is released.

A node that was told to let a data-less service go keeps it running until the hub says that its new home reports it
converged, and that every edge that carries a hostname of it leads there. A hub that never says so leaves two copies
running, which is harmless; one that says so too early could as well have withheld the revision from the new home.
"""

from msgspec import UNSET

from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers.edge_reports import EdgeReports
from holdfast.model.deployment import ServiceState, deployment_of
from holdfast.model.revision import Entry


def state_of(member: Member, address: str) -> ServiceState | None:
    """What the node's newest report says of a service."""
    name = address.removeprefix("service.")
    report = member.report
    return next((one for one in report.services if one.service == name), None) if report is not None else None


def is_proven(member: Member, address: str, entry: Entry, deployment: str) -> bool:
    """The node's newest word says so, not an older report than that word names, and it has seen the containers run: an
    agent that has just started may know no more than how it was before. Held is as wanted, too."""
    state, report = state_of(member, address), member.report
    if state is None or report is None or member.pulse_report != member.report_digest or state.applied != deployment:
        return False
    if state.phase == "held":
        return True
    alive = sum(one.service == state.service and one.status == "running" for one in report.containers)
    return state.phase == "converged" and alive >= entry.containers


class MoveReleases:
    """Belongs to the event loop. What it decides stands in the members' `released`; their bells ring for it."""

    def __init__(self, registry: Registry, edges: EdgeReports) -> None:
        self._registry = registry
        self._edges = edges
        self._lingering: dict[str, frozenset[str]] = {}  # node → services it runs that belong elsewhere
        self.follow()

    def follow(self) -> None:
        """Another revision is applied."""
        self._lingering = {}
        for member in self._registry.members.values():
            self._note(member)
        for member in self._registry.members.values():
            self._release(member)

    def told(self, member: Member) -> None:
        """A node spoke: of what it still runs, and of what has arrived there."""
        self._note(member)
        self._release(member)
        self.changed(member)

    def changed(self, member: Member) -> None:
        """A home that fell silent proves nothing, and one that is back does. The same with edges."""
        for name, addresses in list(self._lingering.items()):
            if any(self._concerns(member, address) for address in addresses):
                self._release(self._registry.members[name])

    def look(self, loop_s: float) -> float | None:
        """An edge that has been silent for long is not waited for any more; answers when to look again."""
        for name in list(self._lingering):
            self._release(self._registry.members[name])
        waits = [self._entry(address) for addresses in self._lingering.values() for address in addresses]
        ends = [self._edges.silent_at_s(entry) for entry in waits if entry is not None]
        return min((end_s for end_s in ends if end_s is not None), default=None)

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
        if free != member.released:
            member.released = free
            if free:
                member.bell.ring()

    def _has_arrived(self, address: str) -> bool:
        entry = self._entry(address)
        if entry is None:
            return True  # removed on purpose, wherever it was
        home = self._registry.members.get(self._home(address))
        if home is None or not home.joined or home.condition.status != "healthy":
            return False
        if entry.containers and not is_proven(home, address, entry, deployment_of(entry)):
            return False
        state = state_of(home, address)
        is_held = state is not None and state.phase == "held"  # then no edge can lead anywhere
        return is_held or self._edges.lead_there(address, entry)
