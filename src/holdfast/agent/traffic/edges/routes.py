"""The public routes of an edge: a lane for each hostname of the manifest, and for each that the proxy still has.

There are no orders for edges: everything comes from the signed manifest (M-45). Renewals of certificates are here, too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from holdfast.agent.keeper import Say
from holdfast.agent.keeping import Keeping
from holdfast.agent.traffic.edges.findings import EdgeFindings
from holdfast.agent.traffic.edges.hostname import Hostname
from holdfast.agent.traffic.edges.lane import EdgeLane
from holdfast.agent.traffic.edges.public_dns import PublicDns
from holdfast.agent.traffic.edges.steps import EdgeConfig, EdgeSteps
from holdfast.errors import HoldfastError
from holdfast.model.report import EdgeState
from holdfast.ports.clock import Clock

GATHER_S = 0.01  # what changes in many lanes within this time is reported at once
TEND_S = 10.0  # between two looks at hostnames, renewals and public DNS
RENEW_S, RENEW_S_MAX = 60.0, 3600.0  # between two tries to renew one certificate
GONE_MAX = 256


class Edges:
    def __init__(
        self,
        *,
        steps: EdgeSteps,
        clock: Clock,
        now_s: Callable[[], float],
        findings: EdgeFindings,
        keeping: Keeping,
        say: Say,
        changed: Callable[[], None],
    ) -> None:
        self._steps = steps
        self._keeping = keeping
        self._public_dns = PublicDns(steps, clock)
        self._clock = clock
        self._now_s = now_s
        self._findings = findings
        self._say = say
        self._tell = changed
        self._charge: EdgeConfig | None = None
        self._lanes: dict[str, EdgeLane] = {}
        self._gone: deque[str] = deque(maxlen=GONE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._bell = asyncio.Event()
        self._is_due = False  # to look which hostnames there are
        self._tended_s = 0.0
        self._shown: tuple[object, ...] = ()
        self._renewing: set[str] = set()
        self._renewals: dict[str, tuple[int, float]] = {}  # that did not work: how often, and when again

    # ---- asked by others

    def follow(self, config: EdgeConfig) -> None:
        """A revision was accepted, or the agent started with one, or the routes of the running proxy are known now."""
        self._charge = config
        self._is_due = True
        self._bell.set()

    def states(self) -> tuple[EdgeState, ...]:
        return tuple(lane.state for _, lane in sorted(self._lanes.items()) if lane.state is not None)

    def gone(self) -> tuple[str, ...]:
        """Hostnames that this edge removed since it started."""
        return tuple(sorted(set(self._gone) - self._lanes.keys()))

    # ---- the loop

    async def run(self) -> None:
        """Until cancelled; the routes stay in the proxy."""
        try:
            while True:
                await self._rung()
                if not self._is_due:
                    await asyncio.sleep(GATHER_S)
                self._bell.clear()
                self._turn_safely()
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._lanes.clear()

    def _turn_safely(self) -> None:
        """A mistake of ours, or of a disk, must not end the lanes."""
        try:
            self._turn()
        except Exception as mistake:
            self._tended_s = self._clock.monotonic_s()
            self._keeping.mistake(mistake)

    async def _rung(self) -> None:
        left_s = TEND_S if self._charge is None else max(self._tended_in_s(), 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._bell.wait()

    def _turn(self) -> None:
        if self._charge is not None and (self._is_due or self._tended_in_s() <= 0):
            self._tend(self._charge)
        self._show()

    def _tended_in_s(self) -> float:
        return self._tended_s + TEND_S - self._clock.monotonic_s()

    def _tend(self, charge: EdgeConfig) -> None:
        self._tended_s = self._clock.monotonic_s()
        is_new, self._is_due = self._is_due, False
        for hostname in sorted({*charge.manifest.edge, *self._steps.board.edge(), *self._lanes}):
            lane = self._lanes.get(hostname)
            if lane is None:
                self._begin(hostname, charge)
            elif is_new:
                lane.follow(charge)
        self._renew_due(charge)
        if not self._public_dns.is_asking:
            self._spawn(self._public_dns.ask(self._lanes.values(), charge))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        mistake = None if task.cancelled() else task.exception()
        if isinstance(mistake, Exception):
            self._keeping.mistake(mistake)

    # ---- lanes

    def _begin(self, hostname: str, charge: EdgeConfig) -> None:
        host = Hostname(hostname, self._clock, self._now_s)
        lane = EdgeLane(host, self._steps, self._clock, self._bell.set)
        self._lanes[hostname] = lane
        lane.follow(charge)
        self._spawn(self._keep(lane))

    async def _keep(self, lane: EdgeLane) -> None:
        await self._keeping.keep(lane.run, hostname=lane.hostname)
        if lane.host.is_gone:
            self._gone.append(lane.hostname)
            self._say("edge_route_gone", {"hostname": lane.hostname})
        del self._lanes[lane.hostname]
        self._is_due = True  # it may have been applied again in this very moment
        self._bell.set()

    # ---- renewals

    def _renew_due(self, charge: EdgeConfig) -> None:
        """Not in the lanes: a public authority may take a minute, and a lane looks every few seconds."""
        now_s = self._clock.monotonic_s()
        due = set(self._steps.certificates.due())
        self._renewals = {name: found for name, found in self._renewals.items() if name in due}
        for hostname in sorted(due & self._lanes.keys() - self._renewing):
            lane = self._lanes[hostname]
            ready_s = self._renewals.get(hostname, (0, 0.0))[1]
            if lane.host.servable is not None and lane.host.wanted is not None and ready_s <= now_s:
                self._renewing.add(hostname)
                self._spawn(self._renew(lane, charge))

    async def _renew(self, lane: EdgeLane, charge: EdgeConfig) -> None:
        tries = self._renewals.get(lane.hostname, (0, 0.0))[0]
        again_s = self._clock.monotonic_s() + min(RENEW_S * 2.0 ** min(tries, 10), RENEW_S_MAX)
        self._renewals[lane.hostname] = (tries + 1, again_s)
        try:
            servable = await self._steps.certificate(charge, lane.hostname)
        except HoldfastError as trouble:  # the finding is that of the certificate
            self._say("certificate_not_renewed", {"hostname": lane.hostname, "message": trouble.message})
        else:
            if lane.host.servable is None or servable.digest != lane.host.servable.digest:
                self._renewals.pop(lane.hostname, None)
                self._say("certificate_renewed", {"hostname": lane.hostname, "digest": servable.digest})
                lane.renewed(servable)
        finally:
            self._renewing.discard(lane.hostname)

    # ---- telling

    def _show(self) -> None:
        """One report for everything that changed in many lanes at once."""
        states = self.states()
        shown = (states, self.gone(), self._findings.show(states))
        if shown != self._shown:
            self._shown = shown
            self._tell()
