"""The hub's side of the fleet: nodes join, check in, fetch orders, are missed when silent. Originates almost nothing.

Belongs to one event loop and waits on that loop's time alone, so that a simulated day runs in seconds.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError, NotPermitted
from holdfast.hub import settings as hub_settings
from holdfast.hub.alerts.alarms import Alarms, Make
from holdfast.hub.alerts.finding_watch import FindingWatch
from holdfast.hub.alerts.service_watch import ServiceWatch
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.ledger.writes import durable, noted
from holdfast.hub.nodes import (
    admission,
    health,
)
from holdfast.hub.nodes import (
    reports as node_reports,
)
from holdfast.hub.nodes import (
    view as nodes_view,
)
from holdfast.hub.nodes.check_in import CheckInHandler
from holdfast.hub.nodes.link_cache import LinkCache
from holdfast.hub.nodes.liveness import Liveness
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry, fingerprint
from holdfast.hub.nodes.report_changes import ReportChanges
from holdfast.hub.orders import queue as order_queue
from holdfast.hub.watchers import fleet_findings
from holdfast.hub.watchers.convergence import Convergence
from holdfast.hub.watchers.deployments import Deployments
from holdfast.hub.watchers.dns_withdrawals import DnsWithdrawals
from holdfast.hub.watchers.edge_reports import EdgeReports
from holdfast.hub.watchers.move_releases import MoveReleases
from holdfast.hub.watchers.standby import Standby
from holdfast.ledger import keys
from holdfast.model.applied import Applied, affected, head_of, manifests_of
from holdfast.model.audit import Event
from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.checkin import (
    HOLD_S_MAX,
    CheckIn,
    CheckInAnswer,
    JoinAnswer,
    JoinRequest,
    NodeNews,
    NodesAnswer,
)
from holdfast.model.hub_status import StatusFinding
from holdfast.model.invite import SignedRevocation
from holdfast.model.observation import NodeObservation
from holdfast.model.order import SignedOrder
from holdfast.model.order_view import OrdersAnswer
from holdfast.model.principal import Principal
from holdfast.model.revision import Head
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.clock import Clock
from holdfast.ports.hub_link import HubReader
from holdfast.ports.ledger_store import LedgerStore, Moved, Transaction
from holdfast.ports.notifier import Notifier
from holdfast.ports.random_source import RandomSource
from holdfast.trust import enrolment as chain

log = logging.getLogger("holdfast.fleet")

AUDIT_LINES_MAX = 1_000
COMMITS_AUDITED = 100  # at once; more only come when a ledger was put in place from elsewhere

Knock = Callable[[str, str], Awaitable[bool]]


class HubFleet:
    """Every method belongs to the event loop, but `committed`, `nodes`, `status_findings`, `observations`, `orders`,
    `converged` and `audit_lines`, which any thread may call: they only look.

    What it refuses, it has written into the audit log; whoever calls it need not do that again.
    """

    def __init__(
        self,
        hub: HubReader,
        store: LedgerStore,
        clock: Clock,
        random: RandomSource,
        audit: AuditLog,
        pace: Cadence = NORMAL,
        make_notifier: Make | None = None,
        notifiers: Sequence[Notifier] = (),
        knock: Knock | None = None,
    ) -> None:
        self._hub = hub
        self._store = store
        self._clock = clock
        self._random = random
        self._audit = audit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refusals = Refusals(audit)
        self._alarms = Alarms(store, clock, make_notifier, notifiers)
        self._pace = pace
        self._registry = Registry(hub, store, pace, self._newcomer)
        self._deployments = Deployments()
        self._deployments.follow(self._registry.applied)
        self._services = ServiceWatch(self._registry, store, clock, random, self._alarms, self._deployments)
        self._convergence = Convergence(self._registry, store, clock, self._deployments)
        self._news = ReportChanges(clock.now_s())
        self._findings = FindingWatch(self._registry, store, clock, random, self._alarms)
        edges = EdgeReports(self._registry, self._time_s)
        self._standby = Standby(self._registry, store, clock, edges)
        self._moves = MoveReleases(self._registry, edges)
        self._withdrawals = DnsWithdrawals(self._registry)
        self._watch = Liveness(
            self._registry, store, clock, random, self._alarms, knock, self._look_also, self._health_changed
        )
        self._reception = CheckInHandler(
            self._registry,
            store,
            clock,
            audit,
            self._watch,
            self._refusals,
            LinkCache(hub),
            self._attend,
            self._applied,
            self._told,
        )
        self._keep_pace()

    def _newcomer(self, name: str) -> Member:
        """A node this process meets for the first time, with what the ledger still knows of it."""
        record = self._store.get(keys.health(name))
        known = msgspec.json.decode(record.value, type=health.HealthRecord) if record else None
        member = Member(name, self._time_s(), health.remembered(known, self._clock.now_s()))
        member.heard_before = known is not None
        node_reports.load(member, self._store)
        order_queue.load(member, self._store)
        return member

    def _time_s(self) -> float:
        return self._loop.time() if self._loop is not None else 0.0

    def _attend(self) -> float:
        """The loop's time; on the first call the loop itself is noted."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._watch.begin(self._loop.time())
        return self._loop.time()

    # ---- following commits

    def committed(self, nodes: Iterable[str] | None = None) -> None:
        """After a commit, from any thread: wakes the nodes whose manifest changed (all that did, unless named)."""
        named = tuple(nodes) if nodes is not None else None
        if self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._follow, named)

    def _follow(self, named: tuple[str, ...] | None = None) -> None:
        before = self._registry.applied
        for gone in self._registry.refresh():
            gone.key = ""
            gone.bell.ring()
        applied = self._registry.applied
        if applied is None:
            return
        self._keep_pace()
        self._alarms.follow(applied)
        self._deployments.follow(applied)
        self._services.follow()
        self._convergence.follow()
        self._standby.follow()
        self._moves.follow()
        self._withdrawals.follow(before, self._time_s())
        self._audit_commits(head_of(before), applied.head)
        for name in affected(manifests_of(before), manifests_of(applied)) if named is None else named:
            if name in self._registry.members:
                self._registry.members[name].bell.ring()

    def _audit_commits(self, before: Head, now: Head) -> None:
        """Who signed stands in the ledger; that this hub took it, and when, belongs into its log as well (I-38)."""
        try:
            taken = self._hub.records(now.number, min(now.number - before.number, COMMITS_AUDITED))
        except HoldfastError as trouble:  # a damaged record is status's affair; nobody is refused for it here
            log.warning("commits since %d are not in the audit log: %s", before.number, trouble.message)
            return
        for record in reversed(taken):
            names = ",".join(signer.operator for signer in record.approval.signers)
            target = f"revision.{record.number}"
            self._audit.append(Event(f"operator:{names}", "commit", target, "done", record.digest), durable=False)

    def _applied(self) -> Applied | None:
        if not self._registry.is_current:
            self._follow()
        return self._registry.applied

    # ---- joining

    def node_of_key(self, line: str) -> Principal | None:
        self._applied()
        return self._registry.principal_of(line)

    async def join(self, principal: Principal, request: JoinRequest, source: str) -> JoinAnswer:
        loop_s = self._attend()
        self._applied()
        now_s = self._clock.now_s()
        try:
            node_reports.check_address(request.address)
            admitted = admission.admit(self._registry, self._store, principal, request, now_s)
            if admitted.record is not None:
                await self._commit_invite(admitted)
                self._registry.enrolled(admitted.member.name, admitted.record)
        except HoldfastError as trouble:
            self._refusals.note(principal, "join", f"node.{request.name[:60]}", trouble, source)
            raise
        member = admitted.member
        address = request.address or source
        what = "enrolled" if admitted.record is not None else "registered again"
        previous = f", previous address {member.address}" if member.address and member.address != address else ""
        if previous:
            log.warning("%s registers from %s%s", member.name, address, previous)
        member.address = address
        self._audit.append(
            Event(f"node:{member.name}", "join", f"node.{member.name}", "done", f"{what}{previous}", source)
        )
        self._watch.heard(member, loop_s)
        return JoinAnswer(True, head_of(self._registry.applied), now_s, self._registry.cadence)

    async def _commit_invite(self, admitted: admission.Admission) -> None:
        try:
            await durable(self._store.submit(admission.writing(admitted)))
        except Moved as moved:
            raise admission.overtaken(admitted, moved) from None

    # ---- checking in

    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool] = lambda: False
    ) -> CheckInAnswer:
        return await self._reception.check_in(principal, message, source, is_gone)

    def _told(self, member: Member) -> None:
        """Its word is another one than before."""
        self._news.note(member.name)
        self._services.heard(member, self._time_s())
        self._findings.heard(member, self._time_s())
        self._convergence.heard(member)
        self._standby.told(member)
        self._moves.told(member)
        self._withdrawals.told(member, self._time_s())
        self._watch.look_again()

    async def news(self, after: int, wait_s: float) -> NodeNews:
        """Held until a node has said something else."""
        self._attend()
        return await self._news.after(after, min(wait_s, HOLD_S_MAX))

    def _look_also(self, loop_s: float) -> float:
        """Everything that comes true by waiting; answers when to look again."""
        next_s = min(self._services.look(loop_s), self._findings.look(loop_s))
        others = (self._moves.look(loop_s), self._withdrawals.look(loop_s))
        return min([next_s, *(other_s for other_s in others if other_s is not None)])

    def _health_changed(self, member: Member | None) -> None:
        if member is None:
            self._standby.begin()
            return
        self._standby.changed(member)
        self._moves.changed(member)

    # ---- orders and revocations

    async def submit(self, principal: Principal, signed: SignedOrder, source: str = "") -> str:
        self._attend()
        applied = self._applied()
        try:
            member, order, record = order_queue.accept(
                applied, self._registry.members, signed, self._store, principal.name, self._clock.now_s()
            )
            if record is not None:
                try:
                    await durable(self._store.submit(order_queue.writing(order, record)))
                except Moved:  # the same order came twice in the same moment
                    return order.id
                order_queue.put_in(member, order, record)
        except HoldfastError as trouble:
            self._refusals.note(principal, "order", "", trouble, source)
            raise
        text = f"{order.action} {order.target} on {order.node}"
        self._audit.append(Event(str(principal), "order", f"order.{order.id}", "done", text, source))
        return order.id

    def orders(self, node: str | None, newest: int) -> OrdersAnswer:
        return OrdersAnswer(tuple(order_queue.views(self._store, self._registry.members, node, newest)))

    async def revoke(self, principal: Principal, signed: SignedRevocation, source: str = "") -> None:
        self._attend()
        applied = self._applied()
        try:
            if applied is None:
                raise NotPermitted("this hub has no revision yet", remedy="holdfast apply", code="nothing_applied")
            revocation = chain.verify_revocation(signed, applied.fleet_id, applied.trust)
            key = keys.revocation(fingerprint(revocation.key))
            await durable(self._store.submit(Transaction(expect={}, put={key: msgspec.json.encode(signed)})))
        except HoldfastError as trouble:
            self._refusals.note(principal, "revoke", "", trouble, source)
            raise
        hit = self._registry.shut_out(revocation.key, signed)
        if hit is not None:
            order_queue.withdraw(hit, "ping")
            hit.bell.ring()
        self._audit.append(
            Event(str(principal), "revoke", f"node.{revocation.node}", "done", fingerprint(revocation.key), source)
        )

    # ---- looking

    def nodes(self, names: Collection[str] = ()) -> NodesAnswer:
        """Of everybody, or of these."""
        loop_s, now_s = self._time_s(), self._clock.now_s()
        members = [m for m in list(self._registry.members.values()) if not names or m.name in names]
        views = tuple(nodes_view.view(member, loop_s, now_s) for member in members)
        return NodesAnswer(views, now_s, self._watch.ready)

    def status_findings(self) -> list[StatusFinding]:
        now_s = self._clock.now_s()
        at = fleet_findings.Moment(now_s, self._time_s())
        found = fleet_findings.findings(self._registry.members, self._registry.applied, at)
        for finding, age_s in self._alarms.findings(now_s):
            found.append(
                StatusFinding(
                    finding.code, finding.level, finding.message, finding.remedy, finding.address, round(age_s, 3)
                )
            )
        return found

    def converged(self, revisions: Sequence[Head]) -> tuple[int, ...]:
        return self._convergence.among(revisions)

    def observations(self) -> dict[str, NodeObservation]:
        loop_s, now_s = self._time_s(), self._clock.now_s()
        members = list(self._registry.members.values())
        return {member.name: nodes_view.observation(member, loop_s, now_s) for member in members}

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
        return member.audit_head.number if member is not None and member.audit_head is not None else 0

    # ---- living

    def set_pace(self, pace: Cadence) -> None:
        """Nodes learn it with their next answer, silence is measured by it from now on."""
        self._pace = pace
        self._keep_pace()
        self._watch.look_again()

    def _keep_pace(self) -> None:
        """A probe may take as long as the fleet says (M-64); a lab's own pace is left as it is."""
        paced = self._pace
        if paced == NORMAL and self._registry.applied is not None:
            paced = replace(paced, probe_s=hub_settings.probe_s(self._registry.applied, paced.probe_s))
        self._registry.set_pace(paced)

    async def run(self) -> None:
        """Watch over the nodes until cancelled."""
        self._attend()
        applied = self._applied()
        if applied is not None:
            self._alarms.follow(applied)
        self._alarms.resume()
        self._services.begin(self._attend())
        self._findings.begin(self._attend())
        self._convergence.begin()
        try:
            await self._watch.run(self.status_findings)
        finally:
            self._alarms.close()
            self._remember()

    def _remember(self) -> None:
        """The newest words of everybody, so that the next hub knows since when a node is silent."""
        words = {
            keys.report(m.name): node_reports.kept(m) for m in self._registry.members.values() if m.heard_s is not None
        }
        put = {key: word for key, word in words.items() if word is not None}
        if put:
            try:
                noted(self._store.submit(Transaction(expect={}, put=put)))
            except HoldfastError as trouble:
                log.warning("the newest reports were not written down: %s", trouble)
