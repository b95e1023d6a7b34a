"""The hub's side of the fleet: nodes join, check in, fetch orders, are missed when silent. Originates almost nothing.

Belongs to one event loop and waits on that loop's time alone, so that a simulated day runs in seconds. A check-in with
nothing to say touches no ledger, encodes nothing and copies nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future

import msgspec
from msgspec.structs import replace

from holdfast.errors import Corrupt, HoldfastError, NotPermitted
from holdfast.hub import admission, checkins, denials, health, mailboxes, nodes_view, own_settings, startup
from holdfast.hub.alarms import Alarms, Make
from holdfast.hub.member import Member
from holdfast.hub.registry import Registry, check_roles, fingerprint
from holdfast.hub.watch import Watch
from holdfast.ledger import keys
from holdfast.model.applied import Applied, content, head_of
from holdfast.model.audit import Event
from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.checkin import (
    HOLD_S_MAX,
    LINKS_MAX,
    CheckIn,
    CheckInAnswer,
    JoinAnswer,
    JoinRequest,
    NodesAnswer,
)
from holdfast.model.hub_status import StatusFinding
from holdfast.model.invite import SignedRevocation
from holdfast.model.observation import NodeObservation
from holdfast.model.order import SignedOrder
from holdfast.model.order_view import OrdersAnswer
from holdfast.model.principal import Principal
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD, Head
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.clock import Clock
from holdfast.ports.entropy import Entropy
from holdfast.ports.hub_link import HubReader
from holdfast.ports.ledger_store import LedgerStore, Moved, Transaction
from holdfast.ports.notifier import Notifier
from holdfast.trust import enrolment as chain

log = logging.getLogger("holdfast.fleet")

LINKS_CACHED = 512
AUDIT_LINES_MAX = 1_000
COMMITS_AUDITED = 100  # at once; more only come when a ledger was put in place from elsewhere

Knock = Callable[[str, str], Awaitable[bool]]


class FleetDesk:
    """Every method belongs to the event loop, but `committed`, `nodes`, `status_findings`, `observations`, `orders`
    and `audit_lines`, which any thread may call: they only look.

    What it refuses, it has written into the audit log; whoever calls it need not do that again.
    """

    def __init__(
        self,
        hub: HubReader,
        store: LedgerStore,
        clock: Clock,
        entropy: Entropy,
        audit: AuditLog,
        pace: Cadence = NORMAL,
        make_notifier: Make | None = None,
        notifiers: Sequence[Notifier] = (),
        knock: Knock | None = None,
    ) -> None:
        self._hub = hub
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._audit = audit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links: dict[int, Link] = {}
        self._window = denials.Window()
        self._folding = False
        self._alarms = Alarms(store, clock, make_notifier, notifiers)
        self._pace = pace
        self._registry = Registry(hub, store, pace, self._newcomer)
        self._watch = Watch(self._registry, store, clock, entropy, self._alarms, knock)
        self._keep_pace()

    def _newcomer(self, name: str) -> Member:
        """A node this process meets for the first time, with what the ledger still knows of it."""
        record = self._store.get(keys.health(name))
        known = msgspec.json.decode(record.value, type=health.HealthRecord) if record else None
        member = Member(name, self._time_s(), health.remembered(known, self._clock.now_s()))
        member.heard_before = known is not None
        checkins.load(member, self._store)
        mailboxes.load(member, self._store)
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
        self._audit_commits(head_of(before), applied.head)
        for name in affected(before, applied) if named is None else named:
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
            checkins.check_address(request.address)
            admitted = admission.admit(self._registry, self._store, principal, request, now_s)
            if admitted.record is not None:
                await self._commit_invite(admitted)
                self._registry.enrolled(admitted.member.name, admitted.record)
        except HoldfastError as trouble:
            self._refused(principal, "join", f"node.{request.name[:60]}", trouble, source)
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
            await _durable(self._store.submit(admission.writing(admitted)))
        except Moved as moved:
            raise admission.overtaken(admitted, moved) from None

    # ---- checking in

    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool] = lambda: False
    ) -> CheckInAnswer:
        loop_s = self._attend()
        applied = self._applied()
        member = self._registry.members.get(principal.name)
        if applied is None or member is None or principal.kind != "node" or member.key != principal.key:
            return self._stranger(principal, message, source)
        if message.node != member.name or message.roles:
            self._check_assertions(member, message, source)
        member.bell.replace()  # a node has one line; what is still held on an older one would be said into the void
        now_s = self._clock.now_s()
        self._watch.heard(member, loop_s)
        if message.clock_s:
            member.skew_s = message.clock_s - now_s
        if member.audit_key != member.key and checkins.is_other_log(member):
            await self._begin_log(member, source)
        if message.pulse is not None or message.report or message.audit or message.address:
            try:
                await self._take(member, message, applied, source)
            except NotPermitted as trouble:
                self._refused(principal, "check-in", f"node.{member.name}", trouble, source)
                raise
            if message.heartbeat:
                member.heartbeat_s = loop_s
        taken = await self._take_results(member, message, source) if message.results else ()
        if not (taken or self._has_news(member, message, applied, loop_s)):
            hold_s = min(message.wait_s, HOLD_S_MAX)
            if member.told is not None and message.seen != applied.head:  # told before, and does not follow
                hold_s = min(hold_s, member.told_s + self._registry.cadence.poll_s - loop_s)
            if hold_s > 0:
                try:
                    woken = await member.bell.wait(hold_s)
                finally:  # also when its line broke: from now on it is the node that has to speak
                    member.turn_s = loop_s = self._attend()
                if woken == "replaced":
                    return self._bare(applied, member)
                applied = self._applied()
                if applied is None or member.key != principal.key:
                    return CheckInAnswer(NO_HEAD, self._clock.now_s(), registered=False)
        if is_gone():  # an order leased to a dead line would be missing until the lease runs out
            return self._bare(applied, member)
        return self._answer(member, message, applied, taken, loop_s)

    def _has_news(self, member: Member, message: CheckIn, applied: Applied, loop_s: float) -> bool:
        if member.orders:
            if message.wait_s:
                mailboxes.unheard(member, loop_s)
            if mailboxes.is_due(member, loop_s):
                return True
        if message.pulse is not None and checkins.wants_report(member):
            return True
        if message.seen == applied.head or message.seen.number >= applied.head.number:
            return False  # nothing newer is here, whatever the node has
        told = member.told
        if told is None or told[0] != message.seen or told[1] != applied.head:
            return True
        return loop_s - member.told_s >= self._registry.cadence.poll_s

    def _answer(
        self, member: Member, message: CheckIn, applied: Applied, taken: tuple[str, ...], loop_s: float
    ) -> CheckInAnswer:
        head = applied.head
        now_s = self._clock.now_s()
        links: tuple[Link, ...] = ()
        manifest = b""
        if message.seen != head and message.seen.number < head.number:
            links = self._links_after(message.seen, head)
            manifest = self._manifest(member, applied)
            if member.told != (message.seen, head):
                member.told, member.told_first_s = (message.seen, head), loop_s
            member.told_s = loop_s
        elif member.told is not None and message.seen == head:
            member.told = None
        orders = mailboxes.deliver(member, loop_s, now_s) if member.orders else ()
        return CheckInAnswer(
            head,
            now_s,
            links,
            manifest,
            orders,
            taken,
            checkins.wants_report(member),
            cadence=self._registry.cadence,
            audit_seen=member.audit_head.number if member.audit_head is not None else 0,
        )

    def _bare(self, applied: Applied, member: Member) -> CheckInAnswer:
        """To a line the node has given up already: nothing that would be missed."""
        seen = member.audit_head.number if member.audit_head is not None else 0
        return CheckInAnswer(applied.head, self._clock.now_s(), cadence=self._registry.cadence, audit_seen=seen)

    def _links_after(self, seen: Head, head: Head) -> tuple[Link, ...]:
        """Kept in memory: after a commit every node asks for the same ones."""
        first, last = seen.number + 1, min(seen.number + LINKS_MAX, head.number)
        missing = [number for number in range(first, last + 1) if number not in self._links]
        if missing:
            for number, link in zip(missing, self._fetched(missing), strict=True):
                self._links[number] = link
            while len(self._links) > LINKS_CACHED:
                del self._links[min(self._links)]
        return tuple(self._links[n] if n in self._links else self._hub.links(n, n)[0] for n in range(first, last + 1))

    def _fetched(self, numbers: list[int]) -> list[Link]:
        if numbers[-1] - numbers[0] + 1 == len(numbers):
            return list(self._hub.links(numbers[0], numbers[-1]))
        return [self._hub.links(number, number)[0] for number in numbers]

    def _manifest(self, member: Member, applied: Applied) -> bytes:
        digest = applied.header.manifests.get(member.name)
        if digest is None:
            raise Corrupt(
                f"revision {applied.head.number} has no manifest of {member.name}",
                remedy="holdfast hub check names what is damaged",
                code="manifest_missing",
            )
        return content(applied.contents, digest, f"the manifest of {member.name}")

    def _stranger(self, principal: Principal, message: CheckIn, source: str) -> CheckInAnswer:
        """A key that is no node's (any more) learns that, and nothing else (D-04)."""
        who = NotPermitted("this key belongs to no node of this fleet", remedy="holdfast agent join TOKEN")
        self._refused(principal, "check-in", f"node.{message.node[:60]}", who, source)
        lost = self._registry.applied is None and self._store.get(keys.PIN) is not None
        return CheckInAnswer(NO_HEAD, self._clock.now_s(), registered=False, salvage_wanted=lost)

    def _check_assertions(self, member: Member, message: CheckIn, source: str) -> None:
        try:
            self._registry.member_called(message.node, member.name)
            check_roles(member, message.roles)
        except HoldfastError as trouble:
            who = Principal("node", member.name, member.key)
            self._refused(who, "check-in", f"node.{message.node[:60]}", trouble, source)
            raise

    async def _take(self, member: Member, message: CheckIn, applied: Applied, source: str) -> None:
        put: dict[str, bytes] = {}
        previous = checkins.moved_from(member, message)
        if previous is not None:
            member.address = message.address
            if previous:
                log.warning("%s is at %s now, previous address %s", member.name, message.address, previous)
                text = f"moved to {message.address}, previous address {previous}"
                self._audit.append(
                    Event(f"node:{member.name}", "check-in", f"node.{member.name}", "done", text, source), durable=False
                )
        if message.pulse is not None:
            checkins.take_pulse(member, message.pulse, applied.fleet_id)
        changed = checkins.take_report(member, message.report) if message.report else None
        if changed is None and previous is not None:
            changed = checkins.kept(member)
        if changed is not None:
            put[keys.report(member.name)] = changed
        copied = checkins.copy_audit(member, message.audit) if message.audit else None
        if copied is not None:
            await _durable(self._store.submit(Transaction(expect={}, put=put | copied.put, delete=copied.delete)))
            member.audit_head, member.audit_key = copied.head, member.key or member.audit_key
        elif put:
            _noted(self._store.submit(Transaction(expect={}, put=put)))

    async def _begin_log(self, member: Member, source: str) -> None:
        """Another machine is this node now: its log is no continuation of the one before, and no forgery of it."""
        before, head, trouble = member.audit_key, member.audit_head, member.audit_trouble
        aside = checkins.put_aside(member, self._store)
        member.audit_key, member.audit_head, member.audit_trouble = member.key, None, ""  # whoever comes meanwhile
        try:
            await _durable(self._store.submit(aside))
        except BaseException:
            member.audit_key, member.audit_head, member.audit_trouble = before, head, trouble
            raise
        text = f"a new log begins; {len(aside.delete)} lines of {fingerprint(before)} are kept apart"
        self._audit.append(Event(f"node:{member.name}", "audit-copy", f"node.{member.name}", "done", text, source))

    async def _take_results(self, member: Member, message: CheckIn, source: str) -> tuple[str, ...]:
        checkins.check_results(message)
        taken = mailboxes.take(member, message.results, self._store)
        if taken.put:
            await _durable(self._store.submit(Transaction(expect={}, put=taken.put, delete=taken.delete)))
        mailboxes.forget(member, taken.ids)
        who = f"node:{member.name}"
        for id, result in taken.finished:
            self._audit.append(
                Event(who, "order-result", f"order.{id}", result.outcome, result.message, source), durable=False
            )
        for result, why in taken.ignored:
            self._fold(Event(who, "order-result", f"order.{result.id[:64]}", "refused", f"ignored: {why}", source))
        return taken.ids

    # ---- orders and revocations

    async def submit(self, principal: Principal, signed: SignedOrder, source: str = "") -> str:
        self._attend()
        applied = self._applied()
        try:
            member, order, record = mailboxes.accept(
                applied, self._registry.members, signed, self._store, principal.name, self._clock.now_s()
            )
            if record is not None:
                try:
                    await _durable(self._store.submit(mailboxes.writing(order, record)))
                except Moved:  # the same order came twice in the same moment
                    return order.id
                mailboxes.put_in(member, order, record)
        except HoldfastError as trouble:
            self._refused(principal, "order", "", trouble, source)
            raise
        text = f"{order.action} {order.target} on {order.node}"
        self._audit.append(Event(str(principal), "order", f"order.{order.id}", "done", text, source))
        return order.id

    def orders(self, node: str | None, newest: int) -> OrdersAnswer:
        return OrdersAnswer(tuple(mailboxes.views(self._store, self._registry.members, node, newest)))

    async def revoke(self, principal: Principal, signed: SignedRevocation, source: str = "") -> None:
        self._attend()
        applied = self._applied()
        try:
            if applied is None:
                raise NotPermitted("this hub has no revision yet", remedy="holdfast apply", code="nothing_applied")
            revocation = chain.verify_revocation(signed, applied.fleet_id, applied.trust)
            key = keys.revocation(fingerprint(revocation.key))
            await _durable(self._store.submit(Transaction(expect={}, put={key: msgspec.json.encode(signed)})))
        except HoldfastError as trouble:
            self._refused(principal, "revoke", "", trouble, source)
            raise
        hit = self._registry.shut_out(revocation.key, signed)
        if hit is not None:
            mailboxes.withdraw(hit, "ping")
            hit.bell.ring()
        self._audit.append(
            Event(str(principal), "revoke", f"node.{revocation.node}", "done", fingerprint(revocation.key), source)
        )

    # ---- looking

    def nodes(self) -> NodesAnswer:
        loop_s, now_s = self._time_s(), self._clock.now_s()
        views = tuple(nodes_view.view(member, loop_s, now_s) for member in list(self._registry.members.values()))
        return NodesAnswer(views, now_s, self._watch.ready)

    def status_findings(self) -> list[StatusFinding]:
        now_s = self._clock.now_s()
        at = startup.Moment(now_s, self._time_s())
        found = startup.findings(self._registry.members, self._registry.applied, at)
        for finding, age_s in self._alarms.findings(now_s):
            found.append(
                StatusFinding(
                    finding.code, finding.level, finding.message, finding.remedy, finding.address, round(age_s, 3)
                )
            )
        return found

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
            paced = replace(paced, probe_s=own_settings.probe_s(self._registry.applied, paced.probe_s))
        self._registry.set_pace(paced)

    async def run(self) -> None:
        """Watch over the nodes until cancelled."""
        self._attend()
        applied = self._applied()
        if applied is not None:
            self._alarms.follow(applied)
        self._alarms.resume()
        try:
            await self._watch.run(self.status_findings)
        finally:
            self._alarms.close()
            self._remember()

    def _remember(self) -> None:
        """The newest words of everybody, so that the next hub knows since when a node is silent."""
        words = {
            keys.report(m.name): checkins.kept(m) for m in self._registry.members.values() if m.heard_s is not None
        }
        put = {key: word for key, word in words.items() if word is not None}
        if put:
            try:
                _noted(self._store.submit(Transaction(expect={}, put=put)))
            except HoldfastError as trouble:
                log.warning("the newest reports were not written down: %s", trouble)

    def _refused(self, principal: Principal, action: str, target: str, why: HoldfastError, source: str) -> None:
        self._fold(Event(str(principal), action, target, "denied", f"{why.code}: {why.message}", source))

    def _fold(self, event: Event) -> None:
        """One line each; of a flood, one line for all that are alike (D9)."""
        if not self._folding:
            self._folding = True
            asyncio.get_running_loop().call_later(denials.WINDOW_S, self._end_window)
        now = self._window.note(event)
        if now is not None:
            self._audit.append(now, durable=False)

    def _end_window(self) -> None:
        self._folding = False
        for event in self._window.end():
            self._audit.append(event, durable=False)


def affected(before: Applied | None, after: Applied) -> list[str]:
    """Nodes whose manifest is another one now."""
    known = before.header.manifests if before is not None else {}
    return [node for node, digest in after.header.manifests.items() if known.get(node) != digest]


async def _durable(writing: "Future[int]") -> int:
    """Group commit: many of these share one flush. A store that is done already is not waited for."""
    return writing.result() if writing.done() else await asyncio.wrap_future(writing)


def _noted(writing: "Future[int]") -> None:
    """Worth a line in the log if it fails, and nothing more: it is told again with the next change."""
    writing.add_done_callback(_complain)


def _complain(writing: "Future[int]") -> None:
    trouble = writing.exception()
    if trouble is not None:
        log.warning("a report was not written down: %s", trouble)
