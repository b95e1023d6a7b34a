"""Internal names that a revision took away: once nobody leads to them any more, DNS servers may drop them at once.

The signed revision has removed them; a server keeps their records for two minutes, so that the backend stops before
its edge lets go, and its edge lets go before the record is gone (I-19). All that is said here is that this came true.
"""

from collections.abc import Iterable

from msgspec import UNSET, Struct

from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers import move_releases
from holdfast.model.applied import Applied
from holdfast.model.deployment import deployment_of
from holdfast.model.revision import Entry
from holdfast.planning.public_routes import carried

KEPT_S = 300.0  # longer than any record lingers
LEAVING_MAX = 10_000


class Leaving(Struct, frozen=True):
    address: str
    node: str  # that ran it
    names: frozenset[str]
    edges: tuple[tuple[str, str], ...]  # hostname, edge
    number: int  # of the revision that took them away
    since_s: float


class DnsWithdrawals:
    """Belongs to the event loop. What it decides stands in the `withdrawn` of members that serve DNS."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._leaving: list[Leaving] = []
        self._gone: dict[str, float] = {}  # name → since when

    def follow(self, before: Applied | None, loop_s: float) -> None:
        """Another revision is applied. What an earlier hub process had noted is not known any more: servers do
        without, and wait for two minutes."""
        after = self._registry.applied
        if after is None:
            return
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

    def told(self, member: Member, loop_s: float) -> None:
        if any(
            member.name == left.node or any(member.name == edge for _, edge in left.edges) for left in self._leaving
        ):
            self._look(loop_s)

    def look(self, loop_s: float) -> float | None:
        """Forgets what is over; answers when to look again."""
        if not (self._leaving or self._gone):
            return None
        self._look(loop_s)
        times = [left.since_s for left in self._leaving] + list(self._gone.values())
        return min(times, default=loop_s) + KEPT_S if times else None

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
        """It accepted the revision, and its report is of its newest word."""
        is_newest = member.report is not None and member.pulse_report == member.report_digest
        return member.seen.number >= left.number and is_newest

    def _has_stopped(self, home: Member, left: Leaving) -> bool:
        entry = self._entry(left.address)
        if entry is not None and entry.node == left.node:  # only a part of it went
            return move_releases.is_proven(home, left.address, entry, deployment_of(entry))
        service, report = left.address.removeprefix("service."), home.report
        assert report is not None
        runs: Iterable[str] = (*(one.service for one in report.services), *(one.service for one in report.containers))
        return service not in runs

    def _has_let_go(self, hostname: str, edge: str, left: Leaving) -> bool:
        member = self._registry.members.get(edge)
        if member is None:
            return True  # no node of this fleet any more
        if not self._follows(member, left) or member.report is None:
            return False
        if not member.report.proxy:
            return False  # its agent has just started, and does not know yet what its proxy has
        service = left.address.removeprefix("service.")
        return not any((one.hostname, one.service) == (hostname, service) for one in member.report.edge)

    def _entry(self, address: str) -> Entry | None:
        applied = self._registry.applied
        return applied.table.entries.get(address) if applied is not None else None

    def _show(self) -> None:
        names = tuple(sorted(self._gone))
        for member in self._registry.members.values():
            entry = self._entry(f"node.{member.name}")
            mine = names if entry is not None and entry.dns else ()
            if mine != member.withdrawn:
                is_news = bool(set(mine) - set(member.withdrawn))
                member.withdrawn = mine
                if is_news:
                    member.bell.ring()


def _names(entry: Entry | None) -> tuple[str, ...]:
    return entry.names if entry is not None and entry.containers else ()


def _keeps(entry: Entry | None, hostname: str, edge: str) -> bool:
    return entry is not None and hostname in carried(entry) and entry.public[hostname].edge == edge
