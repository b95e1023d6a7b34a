"""Work off an agenda: a rollout for each service in its lane, stage by stage, within five minutes."""

import asyncio
from collections.abc import Sequence
from itertools import groupby

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.keeping import Keeping
from holdfast.agent.lanes import Lanes
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.pacing import Pacing
from holdfast.agent.services.rollout.driver import Rollouts
from holdfast.errors import HoldfastError, TryLater
from holdfast.ports.clock import Clock
from holdfast.reconcile.stages import Work

PASS_S_MAX = 295.0  # T-07: it ends before the agent stops waiting for it in PROCESSING
WAITS = "service_waits"


class LaneWork:
    def __init__(
        self,
        *,
        lanes: Lanes,
        rollouts: Rollouts,
        pacing: Pacing,
        clock: Clock,
        findings: Findings,
        keeping: Keeping,
        say: Say,
    ) -> None:
        self._lanes = lanes
        self._rollouts = rollouts
        self._pacing = pacing
        self._clock = clock
        self._findings = findings
        self._keeping = keeping
        self._say = say

    async def work_off(self, wanted: Desired, work: Sequence[Work]) -> None:
        """What does not end in its time goes on in its lane, and the next pass leaves it alone (C-35)."""
        until_s = self._clock.monotonic_s() + PASS_S_MAX
        for _, items in groupby(work, key=lambda item: item.stage):
            tasks = [self._put(wanted, item.service) for item in items]
            left_s = max(until_s - self._clock.monotonic_s(), 0.0)
            _, late = await asyncio.wait(tasks, timeout=left_s)
            if late:
                return

    def _put(self, wanted: Desired, service: str) -> "asyncio.Future[None]":
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                await self._drive(wanted, service)
            finally:
                if not ended.done():
                    ended.set_result(None)

        self._lanes.put(service, work)
        return ended

    async def _drive(self, wanted: Desired, service: str) -> None:
        address = f"service.{service}"
        try:
            await self._rollouts.run(service, wanted.guests.get(service), wanted.revision)
            self._clear(service)
        except HoldfastError as trouble:
            self._pacing.try_later(service, self._clock.monotonic_s())
            if not isinstance(trouble, TryLater):
                self._pacing.stuck[service] = trouble
            self._findings.add_trouble(WAITS, trouble, address)
            self._say(WAITS, {"service": service, "code": trouble.code, "message": trouble.message})
        except Exception as mistake:  # in a lane no other code would report it
            self._pacing.try_later(service, self._clock.monotonic_s())
            self._keeping.mistake(mistake, at=address, service=service)

    def arrived(self, service: str) -> None:
        """What a rollout waited for came without it, a proxy after a boot for example: nothing is left to report."""
        self._rollouts.forget_attempt(service)
        self._clear(service)

    def _clear(self, service: str) -> None:
        address = f"service.{service}"
        self._pacing.arrived(service)
        self._findings.clear(WAITS, address)
        self._keeping.recovered(address)
