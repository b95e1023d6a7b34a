"""Decide which nodes are alive: who is silent, is probed, is missed, is back (M-55, I-30). Runs no loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.errors import HoldfastError
from holdfast.hub.alerts.writer import AlertWriter
from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger.writes import noted
from holdfast.hub.nodes import health
from holdfast.hub.nodes import reports as node_reports
from holdfast.hub.nodes import view as nodes_view
from holdfast.hub.nodes.health import Condition, Consequence, Happening
from holdfast.hub.nodes.member import Member
from holdfast.hub.orders import queue as order_queue
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.random_source import RandomSource
from holdfast.status.edges import carried

log = logging.getLogger("holdfast.fleet")

LOOK_S_MAX = 60.0

Knock = Callable[[str, str], Awaitable[bool]]


class Liveness:
    """Belongs to the event loop."""

    def __init__(
        self,
        *,
        fleet: WatchedFleet,
        store: LedgerStore,
        random: RandomSource,
        alerts: AlertWriter,
        knock: Knock | None,
        time: HubTime,
    ) -> None:
        self._fleet = fleet
        self._store = store
        self._random = random
        self._alerts = alerts
        self._knock = knock
        self._time = time
        self._knocking: set[asyncio.Task[None]] = set()

    def heard(self, member: Member, loop_s: float) -> None:
        """The node checked in, or answered a probe."""
        before_s = member.heard_s
        member.turn_s = member.heard_s = loop_s
        if member.condition.status != "healthy":
            order_queue.withdraw(member, "ping")
            silent_s = nodes_view.silent_s(member, before_s, loop_s, self._time.now_s())
            self._happened(member, "heard", silent_s if silent_s is not None else loop_s - self._time.began_s)

    def call_all(self) -> None:
        """Call each node that lets the hub call it: a view of them within seconds (M-74)."""
        for member in self._fleet.members.values():
            if member.link == "dial" and member.joined:
                self._start_knocking(member)

    def look(self, loop_s: float) -> float:
        """Look at every node once; return when to look again."""
        cadence = self._fleet.cadence
        now_s = self._time.now_s()
        next_s = loop_s + min(LOOK_S_MAX, cadence.window_s)  # a node that joins meanwhile cannot be missed earlier
        for member in list(self._fleet.members.values()):
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
                    silence_s = max(silence_s, loop_s + cadence.probe_s)  # the node waits for the hub
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
        member.condition, follows = health.after(before, happening, self._time.now_s(), self._time.is_warm)
        if follows == "probe":
            self._probe(member)
        if member.condition is not before:
            self._note(member, before, follows, silent_s)
            self._fleet.health_changed(member)

    def _note(self, member: Member, before: Condition, follows: Consequence | None, silent_s: float = 0.0) -> None:
        record = health.record_of(member.condition)
        if record is None:
            return
        put = {keys.health(member.name): msgspec.json.encode(record)}
        newest = node_reports.kept(member) if record.status == "unhealthy" and member.heard_s is not None else None
        if newest is not None:  # its last pulse, for a hub that starts while the node is silent
            put[keys.report(member.name)] = newest
        alert = self._alert(member, follows, max(silent_s, self._time.now_s() - before.since_s))
        if member.condition.status == "healthy" and before.status == "unknown" and member.heard_before:
            put.pop(keys.health(member.name))  # the ledger has it from before this hub started
        member.heard_before = True
        log.info("%s is %s", member.name, member.condition.status)
        self._alerts.write(f"the health of {member.name}", [alert] if alert is not None else [], put)

    def _alert(self, member: Member, follows: Consequence | None, silent_s: float) -> Alert | None:
        address = f"node.{member.name}"
        if follows == "alarm":
            window_s = self._fleet.cadence.window_s
            text = f"{member.name} has been silent for more than {window_s:.0f} s and did not answer a probe; "
            remedy = f"look at the machine and its network: holdfast node show {member.name}"
            if member.is_refused_for_clock:
                way = "ahead of" if member.skew_s > 0 else "behind"
                text = (
                    f"requests of {member.name} are refused: its clock is {abs(member.skew_s):.0f} s {way} the hub's; "
                )
                remedy = f"set the clock of {member.name}: timedatectl set-ntp true"
            text += "nothing on it was stopped or moved"
            text += carried.words(carried.hostnames(member.name, self._fleet.applied()))
            return Alert("node_silent", "alarm", "", address, text, remedy, 0.0)
        if follows == "recover":
            text = f"{member.name} is back after {silent_s:.0f} s of silence"
            return Alert("node_back", "recovery", "", address, text, "nothing to do: holdfast node list", 0.0)
        return None

    # ---- probing

    def _probe(self, member: Member) -> None:
        """Queue a ping order for it; the hub calls only a node that declared link = "dial"."""
        if member.link == "dial" and self._knock is not None:
            self._start_knocking(member)
        else:
            self._ask(member)

    def _ask(self, member: Member) -> None:
        expires_s = self._time.now_s() + self._fleet.cadence.window_s
        order_queue.withdraw(member, "ping")  # an old ping may expire before the node fetches it
        order_queue.ask(member, "ping", self._random.token(16).hex(), expires_s)

    def _start_knocking(self, member: Member) -> None:
        if self._knock is None:
            return
        task = asyncio.get_running_loop().create_task(self._knock_at(member, self._knock))
        self._knocking.add(task)
        task.add_done_callback(self._knocking.discard)

    async def _knock_at(self, member: Member, knock: Knock) -> None:
        try:
            async with asyncio.timeout(self._fleet.cadence.probe_s):
                answered = await knock(member.name, member.address)
        except (TimeoutError, OSError, HoldfastError) as trouble:
            log.info("%s did not answer: %s", member.name, trouble)
            return
        if answered and member.key:
            self.heard(member, asyncio.get_running_loop().time())
        elif not answered:  # no certificate of it is pinned yet: a ping order, as for a node that polls
            self._ask(member)

    # ---- warm-up

    def is_settled(self, loop_s: float) -> bool:
        """The state of each node is known, or the time for that is over."""
        cadence = self._fleet.cadence
        if loop_s - self._time.began_s > cadence.window_s + cadence.probe_s:
            return True
        watched = [member for member in self._fleet.members.values() if _is_watched(member)]
        return all(member.condition.status in ("healthy", "unhealthy") for member in watched)

    def warmed_up(self) -> None:
        """Raise the first alarms: for nodes that were silent through the whole warm-up (M-75)."""
        for member in self._fleet.members.values():
            if member.condition.status == "unhealthy" and not member.condition.alerted and member.joined:
                before = member.condition
                member.condition = Condition("unhealthy", before.since_s, True)
                self._note(member, before, "alarm")

    def remember(self) -> None:
        """Write the newest reports, so that the next hub process knows since when a node is silent."""
        reports = {
            keys.report(m.name): node_reports.kept(m) for m in self._fleet.members.values() if m.heard_s is not None
        }
        put = {key: report for key, report in reports.items() if report is not None}
        if put:
            try:
                noted(self._store.submit(Transaction(expect={}, put=put)))
            except HoldfastError as trouble:
                log.warning("the newest reports were not written down: %s", trouble)

    def _expire_orders(self, member: Member, now_s: float) -> None:
        put, ids = order_queue.expired(member, now_s)
        order_queue.forget(member, ids)
        if put:
            self._store.submit(Transaction(expect={}, put=put))


def _is_watched(member: Member) -> bool:
    """A machine that never joined cannot be missed; it is shown as not joined or unknown."""
    return member.joined and (member.heard_before or member.record is not None)
