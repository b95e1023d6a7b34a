"""Keep watch over the nodes: who has been silent for too long, is probed, is missed, is back (M-55, I-30).

The loop sleeps until the next silence could be too long; words of nodes only ever move that moment away.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from holdfast.errors import HoldfastError
from holdfast.hub.alerts.alarms import Alarms
from holdfast.hub.nodes import health
from holdfast.hub.nodes import reports as node_reports
from holdfast.hub.nodes import view as nodes_view
from holdfast.hub.nodes.health import Condition, Consequence, Happening
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.orders import queue as order_queue
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.hub_status import StatusFinding
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.random_source import RandomSource

log = logging.getLogger("holdfast.fleet")

LOOK_S_MIN = 0.05
LOOK_S_MAX = 60.0

Knock = Callable[[str, str], Awaitable[bool]]


class Liveness:
    def __init__(
        self,
        registry: Registry,
        store: LedgerStore,
        clock: Clock,
        random: RandomSource,
        alarms: Alarms,
        knock: Knock | None,
        look_also: Callable[[float], float] = lambda loop_s: loop_s + LOOK_S_MAX,
        changed: Callable[[Member | None], None] = lambda member: None,
    ) -> None:
        """`changed` hears of every node that is not as it was, and of nobody when the warm-up is over."""
        self._registry = registry
        self._store = store
        self._clock = clock
        self._random = random
        self._alarms = alarms
        self._knock = knock
        self._look_also = look_also
        self._changed = changed
        self._knocking: set[asyncio.Task[None]] = set()
        self._again: asyncio.Event | None = None
        self._began_s = 0.0
        self.ready = False  # the warm-up is over (M-75)

    def begin(self, loop_s: float) -> None:
        """The loop's clock is known from now on: everybody gets a whole window from here."""
        self._began_s = loop_s
        for member in self._registry.members.values():
            member.turn_s = loop_s

    def look_again(self) -> None:
        if self._again is not None:
            self._again.set()

    def heard(self, member: Member, loop_s: float) -> None:
        before_s = member.heard_s
        member.turn_s = member.heard_s = loop_s
        if member.condition.status != "healthy":
            order_queue.withdraw(member, "ping")
            silent_s = nodes_view.silent_s(member, before_s, loop_s, self._clock.now_s())
            self._happened(member, "heard", silent_s if silent_s is not None else loop_s - self._began_s)

    async def run(self, findings: Callable[[], Sequence[StatusFinding]]) -> None:
        self._again = asyncio.Event()
        loop = asyncio.get_running_loop()
        for member in self._registry.members.values():
            if member.link == "dial" and member.joined:
                self._start_knocking(member)  # a view within seconds (M-74)
        while True:
            next_s = min(self._look(loop.time()), self._look_also(loop.time()))
            if not self.ready and self._settled(loop.time()):
                self._become_ready(findings)
            await self._sleep(next_s - loop.time())

    async def _sleep(self, at_most_s: float) -> None:
        assert self._again is not None
        try:
            async with asyncio.timeout(min(max(at_most_s, LOOK_S_MIN), LOOK_S_MAX)):
                await self._again.wait()
        except TimeoutError:
            return
        self._again.clear()

    def _look(self, loop_s: float) -> float:
        """Every node once; answers when to look again."""
        cadence = self._registry.cadence
        now_s = self._clock.now_s()
        next_s = loop_s + min(LOOK_S_MAX, cadence.window_s)  # nobody who joins meanwhile can be missed earlier
        for member in list(self._registry.members.values()):
            if member.orders:
                self._expire_orders(member, now_s)
            if not _is_watched(member):
                continue
            silence_s = member.turn_s + cadence.window_s
            status = member.condition.status
            if status == "suspect":
                if member.probe_until_s <= loop_s:
                    self._happened(member, "probe_over")
                else:
                    next_s = min(next_s, member.probe_until_s)
            elif status != "unhealthy":
                if member.bell.is_held:
                    silence_s = max(silence_s, loop_s + cadence.probe_s)  # it is our turn to speak
                if silence_s <= loop_s:
                    member.probe_until_s = loop_s + cadence.probe_s
                    self._happened(member, "window_over")
                    next_s = min(next_s, member.probe_until_s)
                else:
                    next_s = min(next_s, silence_s)
        return next_s

    # ---- what happened to one node

    def _happened(self, member: Member, happening: Happening, silent_s: float = 0.0) -> None:
        before = member.condition
        member.condition, follows = health.after(before, happening, self._clock.now_s(), self.ready)
        if follows == "probe":
            self._probe(member)
        if member.condition is not before:
            self._note(member, before, follows, silent_s)
            self._changed(member)

    def _note(self, member: Member, before: Condition, follows: Consequence | None, silent_s: float = 0.0) -> None:
        """Written down together with the alarm it raises: a restart neither forgets nor repeats one."""
        record = health.record_of(member.condition)
        if record is None:
            return
        put = {keys.health(member.name): msgspec.json.encode(record)}
        newest = node_reports.kept(member) if record.status == "unhealthy" and member.heard_s is not None else None
        if newest is not None:  # when it spoke last, for a hub that starts while it is silent
            put[keys.report(member.name)] = newest
        alert = self._alert(member, follows, max(silent_s, self._clock.now_s() - before.since_s))
        id = self._random.token(8).hex() if alert is not None else ""
        if alert is not None:
            put |= self._alarms.put(alert, id)
        if member.condition.status == "healthy" and before.status == "unknown" and member.heard_before:
            put.pop(keys.health(member.name))  # as it was before this hub started
        member.heard_before = True
        log.info("%s is %s", member.name, member.condition.status)
        if put:
            try:
                self._store.submit(Transaction(expect={}, put=put))
            except HoldfastError as trouble:
                log.warning("the health of %s was not written down: %s", member.name, trouble)
        if alert is not None:
            self._alarms.send(alert, id)

    def _alert(self, member: Member, follows: Consequence | None, silent_s: float) -> Alert | None:
        fleet = self._registry.applied.fleet_id if self._registry.applied is not None else ""
        now_s = self._clock.now_s()
        address = f"node.{member.name}"
        if follows == "alarm":
            window_s = self._registry.cadence.window_s
            return Alert(
                "node_silent",
                "alarm",
                fleet,
                address,
                f"{member.name} has been silent for more than {window_s:.0f} s and did not answer a probe; "
                "nothing on it was stopped or moved",
                f"look at the machine and its network: holdfast node show {member.name}",
                now_s,
            )
        if follows == "recover":
            text = f"{member.name} is back after {silent_s:.0f} s of silence"
            return Alert("node_back", "recovery", fleet, address, text, "nothing to do: holdfast node list", now_s)
        return None

    # ---- probing

    def _probe(self, member: Member) -> None:
        """A question in its mailbox; only a node that declared link = "dial" is called."""
        if member.link == "dial" and self._knock is not None:
            self._start_knocking(member)
        else:
            self._ask(member)

    def _ask(self, member: Member) -> None:
        expires_s = self._clock.now_s() + self._registry.cadence.window_s
        order_queue.withdraw(member, "ping")  # an old question that is about to expire is no question
        order_queue.ask(member, "ping", self._random.token(16).hex(), expires_s)

    def _start_knocking(self, member: Member) -> None:
        if self._knock is None:
            return
        task = asyncio.get_running_loop().create_task(self._knock_at(member, self._knock))
        self._knocking.add(task)
        task.add_done_callback(self._knocking.discard)

    async def _knock_at(self, member: Member, knock: Knock) -> None:
        try:
            async with asyncio.timeout(self._registry.cadence.probe_s):
                answered = await knock(member.name, member.address)
        except (TimeoutError, OSError, HoldfastError) as trouble:
            log.info("%s did not answer: %s", member.name, trouble)
            return
        if answered and member.key:
            self.heard(member, asyncio.get_running_loop().time())
        elif not answered:  # no certificate of it is pinned yet: a question in its mailbox, as for everybody else
            self._ask(member)

    # ---- warm-up

    def _settled(self, loop_s: float) -> bool:
        cadence = self._registry.cadence
        if loop_s - self._began_s > cadence.window_s + cadence.probe_s:
            return True
        watched = [member for member in self._registry.members.values() if _is_watched(member)]
        return all(member.condition.status in ("healthy", "unhealthy") for member in watched)

    def _become_ready(self, findings: Callable[[], Sequence[StatusFinding]]) -> None:
        """Alarms start; who stayed silent through the whole warm-up is the first to be missed (M-75)."""
        self.ready = True
        for found in findings():
            log.warning("%s %s: %s", found.code, found.address, found.message)
        for member in self._registry.members.values():
            if member.condition.status == "unhealthy" and not member.condition.alerted and member.joined:
                before = member.condition
                member.condition = Condition("unhealthy", before.since_s, True)
                self._note(member, before, "alarm")
        self._changed(None)

    def _expire_orders(self, member: Member, now_s: float) -> None:
        put, ids = order_queue.expired(member, now_s)
        order_queue.forget(member, ids)
        if put:
            self._store.submit(Transaction(expect={}, put=put))


def _is_watched(member: Member) -> bool:
    """A machine that never came cannot be missed; it is shown as not joined or unknown instead."""
    return member.joined and (member.heard_before or member.record is not None)
