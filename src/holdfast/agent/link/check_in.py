"""Check in with the hub: send what is new, take in what it answers, keep the heartbeat while work is under way."""

import asyncio

from holdfast.agent.backoff import ASKED_S_MAX
from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Hints, HintTaker, Say
from holdfast.agent.link import away
from holdfast.agent.link.messages import Messages
from holdfast.agent.orders.orders import Orders
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError, Limited, TryLater, Unreachable
from holdfast.model.checkin import CheckInAnswer, JoinAnswer
from holdfast.ports.fleet_link import FleetLink
from holdfast.trust.time_floor import REMEDY as CLOCK_REMEDY

TELL_S = 0.1  # changes are reported at most so often; more rarely, the more containers run
TELL_S_MAX = 1.0
TELL_EACH_S = 0.01
LIMITED = "hub_limits"
LIMITED_S = 600.0  # the finding stays so long after the last 429, so that it is in a report that people see


class CheckIns:
    """`joined`: the hub took this node into the fleet, now or before this process began."""

    def __init__(
        self,
        *,
        link: FleetLink,
        messages: Messages,
        orders: Orders,
        hint_takers: tuple[HintTaker, ...],
        time: NodeTime,
        findings: Findings,
        say: Say,
        joined: bool,
    ) -> None:
        self._link = link
        self._messages = messages
        self._orders = orders
        self._hint_takers = hint_takers
        self._findings = findings
        self._say = say
        self._is_offline = False
        self._knocks: set[asyncio.Task[None]] = set()
        self._telling: asyncio.Task[None] | None = None
        self.time = time
        self.joined = joined
        self.heard_s: float | None = None  # monotonic, of the last answer
        self._limited_s: float | None = None  # monotonic, of the last 429

    # ---- one check-in

    async def send(self, hold: bool) -> CheckInAnswer:
        sent_s = self._messages.now_s()
        message = self._messages.next(hold, sent_s)
        try:
            answer = await self._link.check_in(message)
        except Limited as trouble:
            self._limited(trouble)
            raise
        self._online()
        self._messages.answered(message, answer, sent_s)
        self._heard(answer)
        return answer

    def _online(self) -> None:
        self.heard_s = self._messages.now_s()
        if self._is_offline:
            self._is_offline = False
            self._say("hub_answers", {})

    def _heard(self, answer: CheckInAnswer) -> None:
        self.time.heard(answer.time_s)
        if self.time.alarm is not None:
            self._findings.add("clock_skew", self.time.alarm, CLOCK_REMEDY)
        else:
            self._findings.clear("clock_skew")
        if self._limited_s is not None and self._messages.now_s() - self._limited_s >= LIMITED_S:
            self._limited_s = None
            self._findings.clear(LIMITED)
        self._messages.take_cadence(answer.cadence)
        if answer.registered:
            self._findings.clear("not_registered")
            hints = hints_of(answer)
            for keeper in self._hint_takers:
                keeper.hinted(hints)
        self._orders.heard(answer.results_taken, answer.orders, answer.own_pulse)

    def took_in(self, answer: JoinAnswer) -> None:
        """The hub took this node into the fleet."""
        self.time.heard(answer.time_s)
        self._orders.heard()
        self._messages.take_cadence(answer.cadence)
        self.joined = True

    # ---- trouble

    def forgotten(self) -> None:
        """The hub does not know this node: it says again who it is (D-04)."""
        self.joined = False

    def freshen(self) -> None:
        self._messages.freshen()

    async def wait_out(self, trouble: HoldfastError) -> None:
        """The hub is away or refuses: nothing on this node changes because of that."""
        if not self._is_offline or not isinstance(trouble, TryLater):
            fields: dict[str, object] = {"code": trouble.code, "message": trouble.message, "remedy": trouble.remedy}
            self._say("hub_trouble", fields)
        self._is_offline = True
        self._messages.freshen()
        if isinstance(trouble, Limited):
            self._limited(trouble)
        pause = self._messages.pace.pause
        if isinstance(trouble, Limited):
            await asyncio.sleep(pause.asked(trouble.retry_after_s))
        elif isinstance(trouble, Unreachable):
            await away.wait(pause.grow(), self._link, pause)
        else:
            await asyncio.sleep(pause.grow())

    def _limited(self, trouble: Limited) -> None:
        """X16: the report that this node signs says that the hub put it off, and for how long."""
        self._limited_s = self._messages.now_s()
        most = f"{ASKED_S_MAX:.0f} s"
        asked = f", and asked for more than {most} of silence" if trouble.retry_after_s > ASKED_S_MAX else ""
        self._findings.add(
            LIMITED,
            f"the hub refused requests of this node as too many (429){asked}; this node waits {most} at most",
            "wait if many nodes came back at once; if it goes on, look at the machine of the hub",
        )

    async def back_off(self) -> None:
        """After a mistake of ours."""
        self._messages.freshen()
        await asyncio.sleep(self._messages.pace.pause.grow())

    def recovered(self) -> None:
        self._messages.pace.pause.reset()

    # ---- beside the loop

    async def keep_beating(self) -> None:
        """While work is under way (I-39): heartbeats go on, with nothing else in them. Until cancelled."""
        pause = self._messages.pace.backoff()
        while True:
            await asyncio.sleep(self._messages.beat_in_s())
            try:
                await self.send(hold=False)
                pause.reset()
            except Limited as trouble:
                await asyncio.sleep(pause.asked(trouble.retry_after_s))
            except HoldfastError:
                await asyncio.sleep(pause.grow())

    def knock(self) -> None:
        """Check in now; while such a check-in is under way, another knock does nothing."""
        if not self._knocks:
            task = asyncio.ensure_future(self._send_now())
            self._knocks.add(task)
            task.add_done_callback(self._knocks.discard)

    def tell(self) -> None:
        """Something in the report changed: it is sent soon, several changes at once."""
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        await asyncio.sleep(min(TELL_S + TELL_EACH_S * self._messages.running(), TELL_S_MAX))
        if self.joined and not self._is_offline:
            await self._send_now()

    async def _send_now(self) -> None:
        self._messages.freshen()
        try:
            await self.send(hold=False)
        except HoldfastError as trouble:
            self._say("hub_trouble", {"code": trouble.code, "message": trouble.message})

    def close(self) -> None:
        for task in (self._telling, *self._knocks):
            if task is not None:
                task.cancel()


def hints_of(answer: CheckInAnswer) -> Hints:
    """What the hub suggests without a signature, by name. A name that is missing means that the hub does not know."""
    hints = {"released": answer.released, "withdrawn": answer.withdrawn}
    return hints if answer.standby is None else {"standby": answer.standby, **hints}
