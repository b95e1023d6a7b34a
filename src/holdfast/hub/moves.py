"""Services on their way to another node: the old one serves until the new one is proven, then it is released.

A node that was told to let a data-less service go keeps it running until the hub says that its new home reports it
converged. A hub that never says so leaves two copies running, which is harmless; one that says so too early could as
well have withheld the revision from the new home.
"""

from msgspec import UNSET

from holdfast.hub.member import Member
from holdfast.hub.registry import Registry
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


class Moves:
    """Belongs to the event loop. What it decides stands in the members' `released`; their bells ring for it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
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
        for name, addresses in self._lingering.items():
            if name != member.name and any(self._home(address) == member.name for address in addresses):
                self._release(self._registry.members[name])

    def changed(self, member: Member) -> None:
        """A home that fell silent proves nothing, and one that is back does."""
        for name, addresses in self._lingering.items():
            if any(self._home(address) == member.name for address in addresses):
                self._release(self._registry.members[name])

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
        return not entry.containers or is_proven(home, address, entry, deployment_of(entry))
