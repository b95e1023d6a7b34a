"""The agent's loop: check in, accept revisions, run orders, report. Keepers work beside it and need no hub (I-01).

Two states (T-03). IDLE: one held check-in after the other. PROCESSING: a frozen piece of work, at most five minutes,
with heartbeats and a report at its end.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.keeper_group import KeeperGroup
from holdfast.agent.keeping import Keeping
from holdfast.agent.lanes import Lanes
from holdfast.agent.link.check_in import CheckIns
from holdfast.agent.link.joining import Joining
from holdfast.agent.orders.orders import Orders
from holdfast.errors import HoldfastError, TryLater, Unauthenticated
from holdfast.model.checkin import CheckInAnswer
from holdfast.model.order import Delivered

PROCESSING_S_MAX = 300.0  # T-07


class Agent:
    def __init__(
        self,
        *,
        keepers: KeeperGroup,
        accepting: Accepting,
        orders: Orders,
        lanes: Lanes,
        check_ins: CheckIns,
        joining: Joining,
        keeping: Keeping,
    ) -> None:
        self._joining = joining
        self._keeping = keeping
        self.keepers = keepers
        self.accepting = accepting
        self.orders = orders
        self.lanes = lanes
        self.check_ins = check_ins
        self.findings = keeping.findings
        self.me = joining.member
        self.time = check_ins.time
        self.state: Literal["idle", "processing"] = "idle"

    # ---- the loop

    async def run(self) -> None:
        """Until cancelled."""
        self.keepers.follow()
        self.orders.recover()
        kept = asyncio.ensure_future(self.keepers.run())
        try:
            await self._run()
        finally:
            kept.cancel()
            await asyncio.wait([kept])
            self.check_ins.close()

    async def _run(self) -> None:
        while True:
            try:
                await self.turn()
            except HoldfastError as trouble:
                if isinstance(trouble, Unauthenticated) and trouble.code != "clock_skew":
                    self.check_ins.forgotten()
                await self.check_ins.wait_out(trouble)
            except Exception as mistake:
                self._keeping.mistake(mistake)
                await self.check_ins.back_off()
            else:
                self.check_ins.recovered()

    async def turn(self) -> None:
        if self.keepers.is_behind:
            self.keepers.follow()
        if not self.check_ins.joined:
            await self.join()
        if self.orders.inbox or self.lanes.is_working:
            await self._process(None)
        answer = await self.check_ins.send(hold=True)
        if answer.salvage_wanted:
            await self._joining.hand_over()
        if not answer.registered:
            self._not_registered()
        self.accepting.hub_is_at(answer.head)
        if answer.head != self.accepting.seen or self.orders.inbox:
            await self._process(answer)

    async def join(self) -> None:
        self.check_ins.took_in(await self._joining.join())

    def _not_registered(self) -> None:
        """The hub does not know this node (any more). Everything stays as it is; the node joins again."""
        self.check_ins.forgotten()
        self.findings.add(
            "not_registered",
            f"the hub does not know {self.me.node}; services keep running as accepted",
            f"holdfast node list; if it is missing there: holdfast node invite {self.me.node}",
        )
        raise TryLater("the hub does not know this node", remedy="holdfast node list", code="not_registered")

    def knock(self) -> None:
        self.check_ins.knock()

    # ---- processing

    async def _process(self, answer: CheckInAnswer | None) -> None:
        """A frozen piece of work (T-05): what comes meanwhile is looked at in the next one."""
        orders = self.orders.emptied()
        self.state = "processing"
        beat = asyncio.ensure_future(self.check_ins.keep_beating())
        failure: HoldfastError | None = None
        try:
            async with asyncio.timeout(PROCESSING_S_MAX):
                await self._work(answer, orders)
            self.findings.clear("processing_timeout")
        except TimeoutError:
            self.lanes.give_up()
            self.findings.add(
                "processing_timeout",
                f"work took longer than {PROCESSING_S_MAX:.0f} s; it continues",
                "`holdfast agent journal` shows it",
            )
        except HoldfastError as trouble:
            failure = trouble
        finally:
            beat.cancel()
            self.check_ins.freshen()  # however it ended, it is reported (T-08); by a later turn if the hub is away
            self.state = "idle"
        await self.check_ins.send(hold=False)
        if failure is not None:
            raise failure

    async def _work(self, answer: CheckInAnswer | None, orders: Sequence[Delivered]) -> None:
        follows = True
        if answer is not None and answer.head != self.accepting.seen:
            follows = await self.accepting.follow(answer)
            self.keepers.follow()
            self.knock()  # the receipt goes up now, not when everything that the revision brought is running
        for delivered in orders:
            self.orders.take(delivered)
        await self.keepers.settled()
        await self.lanes.quiet(PROCESSING_S_MAX)
        if not follows:  # asking again at once would bring the same
            raise TryLater("the hub's revision is refused", remedy="holdfast status", code="revision_refused")
