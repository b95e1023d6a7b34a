"""What clients may read about the fleet: nodes, findings, converged revisions, audit lines. Changes nothing."""

from collections.abc import Collection, Sequence

from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger import reading
from holdfast.hub.nodes import view as nodes_view
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.nodes.report_changes import ReportChanges
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.hub.watchers.convergence import Convergence
from holdfast.ledger import keys
from holdfast.model.checkin import HOLD_S_MAX
from holdfast.model.node_view import NodeNews, NodesAnswer
from holdfast.model.observation import NodeObservation
from holdfast.model.revision import Head
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.ledger_store import Reading

AUDIT_LINES_MAX = 1_000


class FleetViews:
    """Any thread may call it, except `news`: that belongs to the event loop."""

    def __init__(
        self,
        *,
        fleet: WatchedFleet,
        registry: Registry,
        convergence: Convergence,
        changes: ReportChanges,
        store: Reading,
        audit: AuditLog,
        time: HubTime,
    ) -> None:
        self._fleet = fleet
        self._registry = registry
        self._convergence = convergence
        self._changes = changes
        self._store = store
        self._audit = audit
        self._time = time

    def nodes(self, names: Collection[str] = ()) -> NodesAnswer:
        """Of these nodes; without names, of all."""
        loop_s, now_s = self._time.loop_s(), self._time.now_s()
        members = [m for m in list(self._registry.members.values()) if not names or m.name in names]
        views = tuple(nodes_view.view(member, loop_s, now_s) for member in members)
        numbers = sorted({member.seen.number for member in members} - {0})
        return NodesAnswer(views, now_s, self._time.is_warm, chain=reading.heads(self._store, numbers))

    def observations(self) -> dict[str, NodeObservation]:
        loop_s, now_s = self._time.loop_s(), self._time.now_s()
        members = list(self._registry.members.values())
        return {member.name: nodes_view.observation(member, loop_s, now_s) for member in members}

    def converged(self, revisions: Sequence[Head]) -> tuple[int, ...]:
        return self._convergence.among(revisions)

    async def news(self, after: int, wait_s: float) -> NodeNews:
        """Hold until a node reported something new."""
        self._fleet.attend()
        return await self._changes.after(after, min(wait_s, HOLD_S_MAX))

    def audit_lines(self, node: str | None, after: int, limit: int) -> list[bytes]:
        """Of the hub's own log, or of its copy of a node's: lines after that number, oldest first."""
        limit = min(limit, AUDIT_LINES_MAX)
        if node is None:
            return self._audit.lines(after, limit)
        first = keys.node_audit(node, after)
        found = [record.value for record in self._store.scan(keys.node_audit_of(node)) if record.key > first]
        return found[:limit]

    def audit_entries(self, node: str | None) -> int:
        """The number of the newest line."""
        if node is None:
            return self._audit.head().number
        member = self._registry.members.get(node)
        return member.audit.number if member is not None else 0
