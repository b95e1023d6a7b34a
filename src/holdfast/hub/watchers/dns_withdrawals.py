"""Internal names that a revision removed: once no edge leads to them, DNS servers may drop their records at once.

The signed revision removed the names. A server keeps their records for two minutes, so that the backend stops before
its edge drops the route, and the edge drops the route before the record goes (I-19). The hint says that both happened.
"""

from collections.abc import Iterable

from msgspec import UNSET, Struct

from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watcher import NO_HINTS, Hints
from holdfast.hub.watchers import move_releases
from holdfast.model.applied import Applied
from holdfast.model.deployment import deployment_of
from holdfast.model.revision import Entry
from holdfast.planning.public_routes import carried

KEPT_S = 300.0  # longer than a server keeps a removed record
LEAVING_MAX = 10_000


class Leaving(Struct, frozen=True):
    address: str
    node: str  # that ran it
    names: frozenset[str]
    edges: tuple[tuple[str, str], ...]  # hostname, edge
    number: int  # of the revision that removed them
    since_s: float


class DnsWithdrawals:
    """Belongs to the event loop. Hint `withdrawn`, for nodes that serve DNS: names whose records they may drop."""

    def __init__(self, registry: Registry, time: HubTime) -> None:
        self._registry = registry
        self._time = time
        self._leaving: list[Leaving] = []
        self._gone: dict[str, float] = {}  # name → since when
        self._withdrawn: dict[str, tuple[str, ...]] = {}  # node → names

    def committed(self, before: Applied | None, after: Applied) -> None:
        """What an earlier hub process knew is lost with it: servers then keep the records for two minutes."""
        loop_s = self._time.loop_s()
        for address, was in before.table.entries.items() if before is not None else ():
            becomes = after.table.entries.get(address)
            names = frozenset(was.names) - frozenset(_names(becomes))
            if names and was.node is not UNSET:
                left = tuple(sorted((h, r.edge) for h, r in carried(was).items() if not _keeps(becomes, h, r.edge)))
                self._leaving.append(Leaving(address, was.node, names, left, after.head.number, loop_s))
        del self._leaving[:-LEAVING_MAX]
        wanted = {name for entry in after.table.entries.values() for name in _names(entry)}
        self._gone = {name: since_s for name, since_s in self._gone.items() if name not in wanted}
        self._leaving = [left for left in self._leaving if left.names - wanted]
        self._look(loop_s)

    def reported(self, member: Member) -> None:
        if any(
            member.name == left.node or any(member.name == edge for _, edge in left.edges) for left in self._leaving
        ):
            self._look(self._time.loop_s())

    def follows_pulses(self, node: str) -> bool:
        return False

    def health_changed(self, member: Member) -> None:
        pass

    def due(self, loop_s: float) -> float | None:
        """Forget what is over."""
        if not (self._leaving or self._gone):
            return None
        self._look(loop_s)
        times = [left.since_s for left in self._leaving] + list(self._gone.values())
        return min(times, default=loop_s) + KEPT_S if times else None

    def hints(self, node: str) -> Hints:
        names = self._withdrawn.get(node)
        return {"withdrawn": names} if names else NO_HINTS

    def _look(self, loop_s: float) -> None:
        over = [left for left in self._leaving if self._is_over(left)]
        self._gone |= {name: loop_s for left in over for name in left.names}
        self._leaving = [left for left in self._leaving if left not in over and loop_s - left.since_s < KEPT_S]
        self._gone = {name: since_s for name, since_s in self._gone.items() if loop_s - since_s < KEPT_S}
        self._show()

    def _is_over(self, left: Leaving) -> bool:
        home = self._registry.members.get(left.node)
        if home is not None and not (self._follows(home, left) and self._has_stopped(home, left)):
            return False
        return all(self._has_let_go(hostname, edge, left) for hostname, edge in left.edges)

    def _follows(self, member: Member, left: Leaving) -> bool:
        """It accepted the revision, and its newest pulse names its report."""
        is_newest = member.report is not None and member.pulse_report == member.report_digest
        return member.seen.number >= left.number and is_newest

    def _has_stopped(self, home: Member, left: Leaving) -> bool:
        entry = self._entry(left.address)
        if entry is not None and entry.node == left.node:  # the service stays, without some of its names
            return move_releases.is_proven(home, left.address, entry, deployment_of(entry))
        service, report = left.address.removeprefix("service."), home.report
        assert report is not None
        runs: Iterable[str] = (*(one.service for one in report.services), *(one.service for one in report.containers))
        return service not in runs

    def _has_let_go(self, hostname: str, edge: str, left: Leaving) -> bool:
        member = self._registry.members.get(edge)
        if member is None:
            return True  # it left the fleet
        if not self._follows(member, left) or member.report is None:
            return False
        if not member.report.proxy or member.report.edge_unlisted:
            return False  # its agent has just started and has not read its proxy yet, or leaves routes out
        return (hostname, left.address.removeprefix("service.")) not in member.report.routes

    def _entry(self, address: str) -> Entry | None:
        applied = self._registry.applied
        return applied.table.entries.get(address) if applied is not None else None

    def _show(self) -> None:
        names = tuple(sorted(self._gone))
        before, self._withdrawn = self._withdrawn, {}
        for member in self._registry.members.values():
            entry = self._entry(f"node.{member.name}")
            mine = names if entry is not None and entry.dns else ()
            self._withdrawn[member.name] = mine
            if set(mine) - set(before.get(member.name, ())):
                member.bell.ring()


def _names(entry: Entry | None) -> tuple[str, ...]:
    return entry.names if entry is not None and entry.containers else ()


def _keeps(entry: Entry | None, hostname: str, edge: str) -> bool:
    return entry is not None and hostname in carried(entry) and entry.public[hostname].edge == edge
