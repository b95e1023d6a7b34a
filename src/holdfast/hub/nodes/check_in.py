"""Nodes at the counter: what they bring is taken and kept, what is new for them is answered, else their line is held.

A check-in with nothing to say touches no ledger, encodes nothing and copies nothing.
"""

import logging
from collections.abc import Callable

from holdfast.errors import Corrupt, HoldfastError, NotPermitted
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.ledger.writes import durable, noted
from holdfast.hub.nodes import reports as node_reports
from holdfast.hub.nodes.link_cache import LinkCache
from holdfast.hub.nodes.liveness import Liveness
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry, check_roles, fingerprint
from holdfast.hub.orders import queue as order_queue
from holdfast.ledger import keys
from holdfast.model.applied import Applied, content
from holdfast.model.audit import Event
from holdfast.model.checkin import HOLD_S_MAX, CheckIn, CheckInAnswer
from holdfast.model.principal import Principal
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction

log = logging.getLogger("holdfast.fleet")


class CheckInHandler:
    """Belongs to the event loop. `attend` gives the loop's time, `follow_head` what is applied by now, and `told` hears
    of every node whose word is another one than before."""

    def __init__(
        self,
        registry: Registry,
        store: LedgerStore,
        clock: Clock,
        audit: AuditLog,
        watch: Liveness,
        refusals: Refusals,
        links: LinkCache,
        attend: Callable[[], float],
        follow_head: Callable[[], Applied | None],
        told: Callable[[Member], None],
    ) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._audit = audit
        self._watch = watch
        self._refusals = refusals
        self._links = links
        self._attend = attend
        self._follow_head = follow_head
        self._told = told

    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool] = lambda: False
    ) -> CheckInAnswer:
        loop_s = self._attend()
        applied = self._follow_head()
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
        if member.audit_key != member.key and node_reports.is_other_log(member):
            await self._begin_log(member, source)
        if message.pulse is not None or message.report or message.audit or message.address:
            try:
                await self._take(member, message, applied, source)
            except NotPermitted as trouble:
                self._refusals.note(principal, "check-in", f"node.{member.name}", trouble, source)
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
                applied = self._follow_head()
                if applied is None or member.key != principal.key:
                    return CheckInAnswer(NO_HEAD, self._clock.now_s(), registered=False)
        if is_gone():  # an order leased to a dead line would be missing until the lease runs out
            return self._bare(applied, member)
        return self._answer(member, message, applied, taken, loop_s)

    def _has_news(self, member: Member, message: CheckIn, applied: Applied, loop_s: float) -> bool:
        if member.orders:
            if message.wait_s:
                order_queue.unheard(member, loop_s)
            if order_queue.is_due(member, loop_s):
                return True
        if message.pulse is not None and node_reports.wants_report(member):
            return True
        if member.aside != member.hints_told:
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
            links = self._links.after(message.seen, head)
            manifest = self._manifest(member, applied)
            if member.told != (message.seen, head):
                member.told, member.told_first_s = (message.seen, head), loop_s
            member.told_s = loop_s
        elif member.told is not None and message.seen == head:
            member.told = None
        orders = order_queue.deliver(member, loop_s, now_s) if member.orders else ()
        standby, released, withdrawn = member.hints_told = member.aside
        return CheckInAnswer(
            head,
            now_s,
            links,
            manifest,
            orders,
            taken,
            node_reports.wants_report(member),
            cadence=self._registry.cadence,
            audit_seen=member.audit_head.number if member.audit_head is not None else 0,
            standby=standby if self._watch.ready else None,
            released=released,
            withdrawn=withdrawn,
        )

    def _bare(self, applied: Applied, member: Member) -> CheckInAnswer:
        """To a line the node has given up already: nothing that would be missed."""
        seen = member.audit_head.number if member.audit_head is not None else 0
        return CheckInAnswer(applied.head, self._clock.now_s(), cadence=self._registry.cadence, audit_seen=seen)

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
        self._refusals.note(principal, "check-in", f"node.{message.node[:60]}", who, source)
        lost = self._registry.applied is None and self._store.get(keys.PIN) is not None
        return CheckInAnswer(NO_HEAD, self._clock.now_s(), registered=False, salvage_wanted=lost)

    def _check_assertions(self, member: Member, message: CheckIn, source: str) -> None:
        try:
            self._registry.member_called(message.node, member.name)
            check_roles(member, message.roles)
        except HoldfastError as trouble:
            who = Principal("node", member.name, member.key)
            self._refusals.note(who, "check-in", f"node.{message.node[:60]}", trouble, source)
            raise

    async def _take(self, member: Member, message: CheckIn, applied: Applied, source: str) -> None:
        put: dict[str, bytes] = {}
        before = (member.seen, member.report_digest)
        previous = node_reports.moved_from(member, message)
        if previous is not None:
            member.address = message.address
            if previous:
                log.warning("%s is at %s now, previous address %s", member.name, message.address, previous)
                text = f"moved to {message.address}, previous address {previous}"
                self._audit.append(
                    Event(f"node:{member.name}", "check-in", f"node.{member.name}", "done", text, source), durable=False
                )
        if message.pulse is not None:
            node_reports.take_pulse(member, message.pulse, applied.fleet_id)
        changed = node_reports.take_report(member, message.report) if message.report else None
        if changed is None and previous is not None:
            changed = node_reports.kept(member)
        if changed is not None:
            put[keys.report(member.name)] = changed
        copied = node_reports.copy_audit(member, message.audit) if message.audit else None
        if copied is not None:
            await durable(self._store.submit(Transaction(expect={}, put=put | copied.put, delete=copied.delete)))
            member.audit_head, member.audit_key = copied.head, member.key or member.audit_key
        elif put:
            noted(self._store.submit(Transaction(expect={}, put=put)))
        if (member.seen, member.report_digest) != before or (member.has_standby and message.pulse is not None):
            self._told(member)

    async def _begin_log(self, member: Member, source: str) -> None:
        """Another machine is this node now: its log is no continuation of the one before, and no forgery of it."""
        before, head, trouble = member.audit_key, member.audit_head, member.audit_trouble
        aside = node_reports.put_aside(member, self._store)
        member.audit_key, member.audit_head, member.audit_trouble = member.key, None, ""  # whoever comes meanwhile
        try:
            await durable(self._store.submit(aside))
        except BaseException:
            member.audit_key, member.audit_head, member.audit_trouble = before, head, trouble
            raise
        text = f"a new log begins; {len(aside.delete)} lines of {fingerprint(before)} are kept apart"
        self._audit.append(Event(f"node:{member.name}", "audit-copy", f"node.{member.name}", "done", text, source))

    async def _take_results(self, member: Member, message: CheckIn, source: str) -> tuple[str, ...]:
        node_reports.check_results(message)
        taken = order_queue.take(member, message.results, self._store)
        if taken.put:
            await durable(self._store.submit(Transaction(expect={}, put=taken.put, delete=taken.delete)))
        order_queue.forget(member, taken.ids)
        who = f"node:{member.name}"
        for id, result in taken.finished:
            self._audit.append(
                Event(who, "order-result", f"order.{id}", result.outcome, result.message, source), durable=False
            )
        for result, why in taken.ignored:
            self._refusals.fold(
                Event(who, "order-result", f"order.{result.id[:64]}", "refused", f"ignored: {why}", source)
            )
        return taken.ids
