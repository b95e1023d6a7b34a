"""The lane of one public hostname on its edge: decide what is next, do it, wait. One thing at a time.

What is next follows from what is true now (reconcile/edges.py). The state changes only when something changed: times in
it are moments.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.agent.traffic.edges import state as states
from holdfast.agent.traffic.edges.hostname import Hostname
from holdfast.agent.traffic.edges.state import INSTANT_S
from holdfast.agent.traffic.edges.steps import EdgeConfig, EdgeSteps
from holdfast.agent.traffic.edges.tries import Interrupted, Tries
from holdfast.model.report import EdgeState
from holdfast.ports.clock import Clock
from holdfast.ports.proxy import Servable
from holdfast.reconcile import edges
from holdfast.reconcile.edges import PASSED, Act, EdgeFacts, Phase

SOON = 10  # of the pauses that grow: the first after a backend fell silent is about half a second
LOOK_S = 9.0  # a live route is looked at so often: with 2 s for each that hangs, the report is true within 15 s

T = TypeVar("T")


class EdgeLane:
    """`changed` is called when `state` is another one."""

    def __init__(self, host: Hostname, steps: EdgeSteps, clock: Clock, changed: Callable[[], None]) -> None:
        self.host = host
        self.state: EdgeState | None = None
        self._clock = clock
        self._changed = changed
        self._tries = Tries(host, steps, lambda: self._is_new)
        self._bell = asyncio.Event()
        self._is_new = False  # something else is wanted than when the present turn began

    @property
    def hostname(self) -> str:
        return self.host.name

    # ---- asked by others

    def follow(self, config: EdgeConfig) -> None:
        """A revision was accepted. If it wants the same as before, steps that failed are tried at once."""
        if config is self.host.config:
            return
        if self.host.follow(config):
            self._tries.start_over()
            self._tries.expect(self.host.wanted is not None)
            self._is_new = True
            self._bell.set()
        elif self.state is not None and self.state.phase in ("waiting", "failed"):
            self.host.try_at_once(self.state.phase == "failed")
            self._bell.set()

    def renewed(self, servable: Servable) -> None:
        """The same route, with another certificate (M-88)."""
        self.host.got(servable)
        self._bell.set()

    def tell_public(self, leads_to: str) -> None:
        """Where the public name leads instead; "" if it leads here."""
        if self.host.lead_publicly(leads_to):
            self._show(*self._see())

    # ---- the loop

    async def run(self) -> None:
        """Until it is over: neither applied nor in the proxy. Trouble is reported and tried again."""
        while True:
            self._is_new = False
            try:
                facts, act = self._see()
                self._show(facts, act)
                if act == "over":
                    return
                await self._turn(act)
            except Interrupted:
                continue

    async def _turn(self, act: Act) -> None:
        if act == "rest":
            if not await self._rung(self._rest_s()):
                await self._unless_new(self._tries.slot_to_look())
                await self._unless_new(self._tries.look())
        elif not self.host.tries.get(act):
            await self._do(act)
        elif not await self._rung(self._pause_s(act)):
            await self._unless_new(self._tries.slot())
            await self._do(act)

    async def _do(self, act: Act) -> None:
        match act:
            case "withdraw":
                await self._tries.withdraw()
            case "ask":
                await self._unless_new(self._tries.ask())
            case "dns" | "backend" | "certificate":
                await self._unless_new(self._tries.step(act))
            case "domain" | "name" | "route" | "handshake":
                await self._tries.step(act)

    # ---- waiting

    def _rest_s(self) -> float:
        """While another node stands in, its own node is asked often: it may come back soon. A backend that does not
        answer is asked less and less often: a node that died has many hostnames."""
        if self.host.stands_in:
            return min(edges.pause_s("backend", PASSED, self.host.tries.get("rest", 1), "waiting"), LOOK_S)
        silent = self.host.tries.get("backend", 0)
        return min(edges.pause_s("backend", PASSED, silent + SOON, "failed"), LOOK_S) if silent else LOOK_S

    def _pause_s(self, act: Act) -> float:
        check = edges.trouble_at(self._tries.facts(), act) or PASSED
        phase: Phase = self.state.phase if self.state is not None else "waiting"
        return edges.pause_s(act, check, self.host.tries.get(act, 1), phase)

    def _overdue_in_s(self) -> float | None:
        """Until this takes too long; None if it does already, or if it is at rest."""
        assert self.host.config is not None
        if self.host.restless_s is None:
            return None
        left_s = self.host.config.edge_route_s - self.host.waited_s()
        return left_s if left_s > INSTANT_S else None

    async def _rung(self, at_most_s: float) -> bool:
        """Wait; True if the bell rang. What becomes overdue meanwhile is reported in time."""
        until_s = self._clock.monotonic_s() + at_most_s
        while (left_s := until_s - self._clock.monotonic_s()) > INSTANT_S:
            overdue_s = self._overdue_in_s()
            try:
                async with asyncio.timeout(left_s if overdue_s is None else min(left_s, overdue_s)):
                    await self._bell.wait()
            except TimeoutError:
                self._show(*self._see())
            else:
                self._bell.clear()
                return True
        return False

    async def _unless_new(self, work: Coroutine[Any, Any, T]) -> T:
        """Cut off as soon as something else is wanted: for work that asks and waits, not for what changes the proxy."""
        task = asyncio.ensure_future(work)
        rung = asyncio.ensure_future(self._bell.wait())
        try:
            while not task.done():
                await asyncio.wait({task, rung}, timeout=self._overdue_in_s(), return_when=asyncio.FIRST_COMPLETED)
                if self._is_new:
                    raise Interrupted
                if rung.done():
                    self._bell.clear()
                    rung = asyncio.ensure_future(self._bell.wait())
                if not task.done():
                    self._show(*self._see())
            return task.result()
        finally:
            rung.cancel()
            task.cancel()
            await asyncio.gather(rung, task, return_exceptions=True)

    # ---- showing

    def _see(self) -> tuple[EdgeFacts, Act]:
        """What is true, and what is next by it."""
        assert self.host.config is not None, "nothing is done before a revision is accepted"
        facts = self._tries.facts()
        return facts, edges.next_act(facts, self.host.config.undeploy_s)

    def _show(self, facts: EdgeFacts, act: Act) -> None:
        host, before = self.host, self.state
        host.rest(act == "rest")
        if host.wanted is None:
            state = states.leaving(host, facts.has, before)
        else:
            state = states.serving(host, host.wanted, facts, act, self._tries.certificate())
        self._tries.expect(state is not None and state.phase == "waiting")
        if state is not None:
            state = states.since(state, before, host.moment_s())
        if state != before:
            self.state = state
            self._changed()
