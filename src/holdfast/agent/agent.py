"""The agent's loop: check in, accept revisions, run orders, report. It needs no hub to keep services running (I-01).

Two states (T-03). IDLE: one held check-in after the other. PROCESSING: a frozen piece of work, at most five minutes, no
polling but heartbeats, and a report at its end. Services are kept by a task of their own (agent/services/keeper.py).
"""

import asyncio
import traceback
from collections.abc import Callable, Sequence
from typing import Literal

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.backoff import Backoff
from holdfast.agent.findings import Findings
from holdfast.agent.lanes import Lanes
from holdfast.agent.link import salvage
from holdfast.agent.link.report import Reporter
from holdfast.agent.membership import Membership
from holdfast.agent.orders import crash_recovery
from holdfast.agent.orders.actions import Performer
from holdfast.agent.orders.orders import Orders
from holdfast.agent.services.keeper import Services
from holdfast.agent.time import NodeTime
from holdfast.agent.traffic.keeper import Traffic
from holdfast.agent.world import World
from holdfast.errors import Conflict, HoldfastError, Limited, TryLater, Unauthenticated
from holdfast.model.cadence import NORMAL, Cadence, bounded
from holdfast.model.checkin import HOLD_S_MAX, CheckIn, CheckInAnswer, JoinRequest
from holdfast.model.order import Delivered
from holdfast.model.report import SignedPulse
from holdfast.trust.time_floor import REMEDY as CLOCK_REMEDY

PROCESSING_S_MAX = 300.0  # T-07
AUDIT_LINES = 64
AUDIT_BYTES = 64 * 1024
INBOX_MAX = 256
TELL_S = 0.1  # progress is told at most so often; more rarely, the more there is to tell
TELL_S_MAX = 1.0
TELL_EACH_S = 0.01


def _where(trouble: BaseException) -> str:
    frames = traceback.extract_tb(trouble.__traceback__)[-4:]
    return " › ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)


class Agent:
    """`joined`: this process has been taken in by the hub it talks to, or believes so from before."""

    def __init__(self, world: World, membership: Membership, confirmed: Callable[[], None] = lambda: None) -> None:
        self.world = world
        self.me = membership
        self.state: Literal["idle", "processing"] = "idle"
        self.time = NodeTime(world.clock, world.journal)
        self.findings = Findings(self.time.now_s)
        self.accepting = Accepting(world, membership, self.findings)
        self.lanes = Lanes()
        self.traffic = Traffic(world, self.time, self.findings, self.tell)
        self.services = Services(
            world,
            membership,
            self.accepting,
            self.time,
            self.findings,
            self.lanes,
            self.traffic,
            self.tell,
        )
        self.traffic.stirred = self.services.wake
        self.performer = Performer(world, self.services)
        self.orders = Orders(world, membership, self.accepting, self.time, self.findings, self.lanes, self.performer)
        self.orders.opening.hurry = self.tell
        told = self.orders.answers.told
        self.reporter = Reporter(
            world, membership, self.accepting, self.time, self.findings, self.services, self.traffic, told
        )
        self.cadence: Cadence = NORMAL
        self.joined = membership.joined
        self.heard_s: float | None = None  # monotonic, of the last answer
        self._confirmed = confirmed  # told when a hub took this node in
        self._pause = Backoff(world.random)
        self._said: Cadence | None = None
        self._beat_due_s = 0.0
        self._fresh = True  # something to say that was not said before
        self._hub_has = ""  # digest of the report the hub holds
        self._audit_seen: int | None = None
        self._inbox: list[Delivered] = []
        self._offline = False
        self._knocks: set[asyncio.Task[None]] = set()
        self._telling: asyncio.Task[None] | None = None

    # ---- the loop

    async def run(self) -> None:
        """Until cancelled."""
        self._follow_own()
        crash_recovery.settle(self.world, self.me, self.accepting, self.orders)
        keeping = [asyncio.ensure_future(self.services.run()), asyncio.ensure_future(self.traffic.run())]
        try:
            await self._run()
        finally:
            for keeper in keeping:
                keeper.cancel()
            await asyncio.wait(keeping)
            for task in (self._telling, *self._knocks):
                if task is not None:
                    task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self.turn()
            except Limited as trouble:
                await self._wait(trouble, self._pause.asked(trouble.retry_after_s))
            except HoldfastError as trouble:
                if isinstance(trouble, Unauthenticated) and trouble.code != "clock_skew":
                    self.joined = False  # a hub that lost its memory: say again who this is (D-04)
                await self._wait(trouble, self._pause.grow())
            except Exception as trouble:  # a mistake of ours: an agent that dies of it could not even be told so
                self.findings.add("internal_error", f"{type(trouble).__name__}: {trouble}", "report this, with the log")
                self.world.say("internal_error", {"message": repr(trouble), "where": _where(trouble)})
                self._fresh = True
                await asyncio.sleep(self._pause.grow())
            else:
                self._pause.reset()

    async def _wait(self, trouble: HoldfastError, seconds: float) -> None:
        """The hub is away or refuses: nothing here changes because of that."""
        if not self._offline or not isinstance(trouble, TryLater):
            fields: dict[str, object] = {"code": trouble.code, "message": trouble.message, "remedy": trouble.remedy}
            self.world.say("hub_trouble", fields)
        self._offline = True
        self._fresh = True
        await asyncio.sleep(seconds)

    async def turn(self) -> None:
        if not self.joined:
            await self.join()
        if self._inbox or self.services.busy:
            await self._process(None)
        answer = await self._say(hold=True)
        if answer.salvage_wanted:
            await salvage.hand_over(self.me.node, self.world.acceptance, self.world.link.salvage)
        if not answer.registered:
            await self._not_registered()
        elif answer.head != self.accepting.seen or self._inbox:
            await self._process(answer)

    # ---- joining

    async def join(self) -> None:
        me = self.me
        request = JoinRequest(me.enrolment, me.node, me.roles, me.address, self.world.machine.arch())
        try:
            answer = await self.world.link.join(request)
        except Conflict as trouble:
            if trouble.code == "nothing_applied" and self.accepting.newest is not None:  # it had a ledger once
                await salvage.hand_over(me.node, self.world.acceptance, self.world.link.salvage)
            raise
        if not answer.accepted:
            raise Conflict(
                f"the hub does not take {me.node} into the fleet",
                remedy=f"holdfast node invite {me.node}, then holdfast agent join TOKEN",
                code="not_registered",
            )
        self.time.heard(answer.time_s)
        self.orders.birth.heard()
        self._take_cadence(answer.cadence)
        self.joined = True
        self._confirmed()
        self.world.say("joined", {"node": me.node, "head": answer.head.number})

    async def _not_registered(self) -> None:
        """The hub does not know this node (any more). Everything stays as it is; who this is, is said again."""
        self.joined = False
        self.findings.add(
            "not_registered",
            f"the hub does not know {self.me.node}; everything here goes on as accepted",
            f"holdfast node list; if it is missing there: holdfast node invite {self.me.node}",
        )
        raise TryLater("the hub does not know this node", remedy="holdfast node list", code="not_registered")

    # ---- saying and hearing

    async def _say(self, hold: bool) -> CheckInAnswer:
        sent_s = self.world.clock.monotonic_s()
        message = self._message(hold, sent_s)
        answer = await self.world.link.check_in(message)
        self._heard(message, answer, sent_s)
        return answer

    def _message(self, hold: bool, now_s: float) -> CheckIn:
        beat = now_s >= self._beat_due_s
        if self.reporter.look(self._operations()) or self.performer.report_now:
            self._fresh = True
        wait_s = 0.0
        if hold and not self._fresh:
            wait_s = min(self.cadence.poll_s, HOLD_S_MAX)
            if not beat:
                wait_s = min(wait_s, max(self._beat_due_s - now_s, 0.0))
        pulse: SignedPulse | None = None
        report = b""
        if beat or self._fresh:
            pulse = self.reporter.pulse()
            if self.reporter.digest != self._hub_has or self.performer.report_now:
                report = self.reporter.content
        return CheckIn(
            self.me.node,
            self.accepting.seen,
            beat,
            pulse,
            report,
            self.orders.answers.waiting() if self.orders.answers.unsent else (),
            wait_s,
            self.world.clock.now_s(),
            (),
            self.me.address if pulse is not None else "",
            self._audit_lines(),
        )

    def _audit_lines(self) -> tuple[bytes, ...]:
        seen = self._audit_seen
        if seen is None or self.world.audit.head().number <= seen:
            return ()
        found: list[bytes] = []
        size_bytes = 0
        for line in self.world.audit.lines(seen, AUDIT_LINES):
            size_bytes += len(line)
            if size_bytes > AUDIT_BYTES and found:
                break
            found.append(line)
        return tuple(found)

    def _heard(self, message: CheckIn, answer: CheckInAnswer, sent_s: float) -> None:
        self.heard_s = self.world.clock.monotonic_s()
        if self._offline:
            self._offline = False
            self.world.say("hub_answers", {})
        if message.heartbeat:
            self.accepting.refusals.turn()
            self._beat_due_s = sent_s + self.cadence.heartbeat_s
        if message.pulse is not None:
            self._fresh = False
        if message.report:
            self._hub_has = self.reporter.digest
            self.performer.report_now = False
        elif answer.report_wanted:
            self._hub_has = ""
            self._fresh = True
        self.time.heard(answer.time_s)
        self.orders.birth.heard()
        if self.time.alarm is not None:
            self.findings.add("clock_skew", self.time.alarm, CLOCK_REMEDY)
        else:
            self.findings.clear("clock_skew")
        if answer.cadence != self._said:
            self._take_cadence(answer.cadence)
        if answer.results_taken:
            self.orders.answers.taken(answer.results_taken)
        self._audit_seen = answer.audit_seen
        if answer.registered:
            self.findings.clear("not_registered")
            self.services.stand_in(answer.standby)
            self.services.release(answer.released)
            self.traffic.names.withdraw(answer.withdrawn)
        self._take_in(answer.orders)

    def _take_in(self, orders: Sequence[Delivered]) -> None:
        """What only opens a stream waits for nothing: logs are wanted above all while work is under way."""
        for delivered in orders:
            if self.orders.opening.is_meant(delivered):
                self.orders.take(delivered)
            elif len(self._inbox) < INBOX_MAX:
                self._inbox.append(delivered)

    def _take_cadence(self, said: Cadence) -> None:
        self._said = said
        self.cadence = bounded(said)
        self._pause.fit(said.window_s)
        self.services.health_checks.start_s = self.cadence.start_s
        self._beat_due_s = min(self._beat_due_s, self.world.clock.monotonic_s() + self.cadence.heartbeat_s)

    def _operations(self) -> tuple[str, ...]:
        return tuple(sorted(self.orders.under_way | self.services.crew.under_way))

    # ---- processing

    async def _process(self, answer: CheckInAnswer | None) -> None:
        """A frozen piece of work (T-05): what comes meanwhile is looked at in the next one."""
        orders, self._inbox = self._inbox, []
        self.state = "processing"
        beat = asyncio.ensure_future(self._keep_beating())
        failure: HoldfastError | None = None
        try:
            async with asyncio.timeout(PROCESSING_S_MAX):
                await self._work(answer, orders)
            self.findings.clear("processing_timeout")
        except TimeoutError:
            self.lanes.give_up()
            self.findings.add(
                "processing_timeout",
                f"work took longer than {PROCESSING_S_MAX:.0f} s; what is under way goes on",
                "holdfast agent journal shows it",
            )
        except HoldfastError as trouble:
            failure = trouble
        finally:
            beat.cancel()
            self._fresh = True  # whichever way it ended, it is reported (T-08); by a later turn if the hub is away
            self.state = "idle"
        await self._say(hold=False)
        if failure is not None:
            raise failure

    async def _work(self, answer: CheckInAnswer | None, orders: Sequence[Delivered]) -> None:
        follows = True
        if answer is not None and answer.head != self.accepting.seen:
            follows = await self.accepting.follow(answer)
            self._follow_own()
            self.knock()  # the receipt goes up now, not when everything it brought is running
        for delivered in orders:
            self.orders.take(delivered)
        await self.services.settled()
        await self.lanes.quiet(PROCESSING_S_MAX)
        if not follows:  # asking again at once would bring the same
            raise TryLater("the hub's revision is refused", remedy="holdfast status", code="revision_refused")

    def _follow_own(self) -> None:
        """What of the revision is about this machine itself; trouble with it keeps nobody from checking in."""
        try:
            own = self.accepting.own()
            if own is not None:
                self.world.certificates.follow(*own)
                manifest, document = self.accepting.in_force, self.accepting.document()
                if manifest is not None and document is not None:
                    self.traffic.follow(manifest, document, own[0], self.me.address)
                self.services.follow()
            self.findings.clear("certificates")
        except HoldfastError as trouble:
            self.findings.add_trouble("certificates", trouble)

    async def _keep_beating(self) -> None:
        """Busy is not dead (I-39): heartbeats go on while something is under way, with nothing else in them."""
        pause = Backoff(self.world.random)
        while True:
            await asyncio.sleep(max(self._beat_due_s - self.world.clock.monotonic_s(), 0.0))
            try:
                await self._say(hold=False)
                pause.reset()
            except Limited as trouble:
                await asyncio.sleep(pause.asked(trouble.retry_after_s))
            except HoldfastError:
                await asyncio.sleep(pause.grow())

    def knock(self) -> None:
        """Somebody asks for a sign of life; asking twice is asking once."""
        if not self._knocks:
            task = asyncio.ensure_future(self._answer_knock())
            self._knocks.add(task)
            task.add_done_callback(self._knocks.discard)

    def tell(self) -> None:
        """Something about this node changed: said soon, several changes in one breath."""
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        await asyncio.sleep(min(TELL_S + TELL_EACH_S * (self.services.running or 0), TELL_S_MAX))
        if self.joined and not self._offline:
            await self._answer_knock()

    async def _answer_knock(self) -> None:
        self._fresh = True
        try:
            await self._say(hold=False)
        except HoldfastError as trouble:
            self.world.say("hub_trouble", {"code": trouble.code, "message": trouble.message})
