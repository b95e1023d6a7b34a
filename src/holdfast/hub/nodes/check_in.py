"""Handle a check-in: store the node's report, answer with anything new, else hold the request (long poll).

A check-in without news reads no ledger, encodes nothing and copies nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import HoldfastError, NotPermitted
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes import reports as node_reports
from holdfast.hub.nodes.intake import Intake
from holdfast.hub.nodes.link_cache import NOTHING, LinkCache
from holdfast.hub.nodes.liveness import Liveness
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry, check_roles
from holdfast.hub.orders import queue as order_queue
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.model.applied import Applied
from holdfast.model.checkin import HOLD_S_MAX, CheckIn, CheckInAnswer
from holdfast.model.principal import Principal
from holdfast.model.revision import NO_HEAD


class CheckInHandler:
    """Belongs to the event loop."""

    def __init__(
        self,
        *,
        registry: Registry,
        fleet: WatchedFleet,
        liveness: Liveness,
        intake: Intake,
        links: LinkCache,
        refusals: Refusals,
        time: HubTime,
    ) -> None:
        self._registry = registry
        self._fleet = fleet
        self._liveness = liveness
        self._intake = intake
        self._links = links
        self._refusals = refusals
        self._time = time

    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool] = lambda: False
    ) -> CheckInAnswer:
        loop_s = self._fleet.attend()
        applied = self._fleet.applied()
        member = self._registry.members.get(principal.name)
        if applied is None or member is None or principal.kind != "node" or member.key != principal.key:
            return self._stranger(principal, message, source)
        if message.node != member.name or message.roles:
            self._check_assertions(member, message, source)
        member.bell.replace()  # a node has one connection: the answer to an older held request would be lost
        self._liveness.heard(member, loop_s)
        taken = await self._take(principal, member, message, applied, source, loop_s)
        if not (taken or self._has_news(member, message, applied, loop_s)):
            hold_s = self._hold_s(member, message, applied, loop_s)
            if hold_s > 0:
                try:
                    woken = await member.bell.wait(hold_s)
                finally:  # also if the connection broke: from now on the hub waits for the node
                    member.turn_s = loop_s = self._fleet.attend()
                if woken == "replaced":
                    return self._bare(applied, member)
                applied = self._fleet.applied()
                if applied is None or member.key != principal.key:
                    return CheckInAnswer(NO_HEAD, self._time.now_s(), registered=False)
        if is_gone():  # an order leased to a dead connection would be missing until the lease ends
            return self._bare(applied, member)
        return self._answer(member, message, applied, taken, loop_s)

    async def _take(
        self, principal: Principal, member: Member, message: CheckIn, applied: Applied, source: str, loop_s: float
    ) -> tuple[str, ...]:
        """Store what the node sent; return the ids of order results that it need not send again."""
        if message.clock_s:
            member.skew_s = message.clock_s - self._time.now_s()
        if member.audit.key != member.key and node_reports.is_other_log(member):
            await self._intake.begin_log(member, source)
        if message.pulse is not None or message.report or message.audit or message.address:
            try:
                changed = await self._intake.take(member, message, applied.fleet_id, source)
                if changed or (message.pulse is not None and self._fleet.follows_pulses(member.name)):
                    self._fleet.reported(member)
            except NotPermitted as trouble:
                self._refusals.note(principal, "check-in", f"node.{member.name}", trouble, source)
                raise
            if message.heartbeat:
                member.heartbeat_s = loop_s
        return await self._intake.take_results(member, message, source) if message.results else ()

    def _hold_s(self, member: Member, message: CheckIn, applied: Applied, loop_s: float) -> float:
        hold_s = min(message.wait_s, HOLD_S_MAX)
        if member.answered.heads is not None and message.seen != applied.head:  # it has the head and does not follow
            hold_s = min(hold_s, member.answered.last_s + self._registry.cadence.poll_s - loop_s)
        return hold_s

    def _has_news(self, member: Member, message: CheckIn, applied: Applied, loop_s: float) -> bool:
        if member.orders:
            if message.wait_s:
                order_queue.unheard(member, loop_s)
            if order_queue.is_due(member, loop_s):
                return True
        if message.pulse is not None and node_reports.wants_report(member):
            return True
        if member.to_return is not None:
            return True
        if _differ(self._fleet.hints(member.name), member.answered.hints):
            return True
        if message.seen == applied.head or message.seen.number >= applied.head.number:
            return False  # the hub has nothing newer
        if member.answered.heads != (message.seen, applied.head):
            return True
        return loop_s - member.answered.last_s >= self._registry.cadence.poll_s

    def _answer(
        self, member: Member, message: CheckIn, applied: Applied, taken: tuple[str, ...], loop_s: float
    ) -> CheckInAnswer:
        head, answered = applied.head, member.answered
        offer = NOTHING
        if message.seen != head and message.seen.number < head.number:
            offer = self._links.offer(member.name, message.seen, applied)
            if answered.heads != (message.seen, head):
                answered.heads, answered.first_s = (message.seen, head), loop_s
            answered.last_s = loop_s
        elif answered.heads is not None and message.seen == head:
            answered.heads = None
        now_s = self._time.now_s()
        answered.hints = hints = self._fleet.hints(member.name)
        by_field: dict[str, Any] = dict(hints)
        own_pulse, member.to_return = member.to_return, None
        return CheckInAnswer(
            head,
            now_s,
            offer.links,
            offer.manifest,
            order_queue.deliver(member, loop_s, now_s) if member.orders else (),
            taken,
            node_reports.wants_report(member),
            cadence=self._registry.cadence,
            audit_seen=member.audit.number,
            own_pulse=own_pulse,
            salvage_wanted=message.seen.number > head.number,  # this hub lost revisions that the node accepted
            **by_field,
        )

    def _bare(self, applied: Applied, member: Member) -> CheckInAnswer:
        """For a connection that the node has given up: contains nothing that it would miss."""
        cadence = self._registry.cadence
        return CheckInAnswer(applied.head, self._time.now_s(), cadence=cadence, audit_seen=member.audit.number)

    def _stranger(self, principal: Principal, message: CheckIn, source: str) -> CheckInAnswer:
        """The answer to a key that is not, or no longer, a node's: it contains nothing else (D-04)."""
        who = NotPermitted("this key belongs to no node of this fleet", remedy="holdfast agent join TOKEN")
        self._refusals.note(principal, "check-in", f"node.{message.node[:60]}", who, source)
        lost = self._registry.has_lost_ledger
        return CheckInAnswer(NO_HEAD, self._time.now_s(), registered=False, salvage_wanted=lost)

    def _check_assertions(self, member: Member, message: CheckIn, source: str) -> None:
        try:
            self._registry.member_called(message.node, member.name)
            check_roles(member, message.roles)
        except HoldfastError as trouble:
            who = Principal("node", member.name, member.key)
            self._refusals.note(who, "check-in", f"node.{message.node[:60]}", trouble, source)
            raise


def _differ(hints: Mapping[str, tuple[str, ...]], others: Mapping[str, tuple[str, ...]]) -> bool:
    """An empty hint is the same as none."""
    return hints != others and any(hints.get(name, ()) != others.get(name, ()) for name in {*hints, *others})
