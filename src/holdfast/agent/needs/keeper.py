"""Keep the needs of this node's services fulfilled, hub or no hub: ask, deliver, tell, give back."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from holdfast.agent.keeper import Revision
from holdfast.agent.needs.declared import Declarations, Declared
from holdfast.agent.needs.fulfilling import Fulfilling
from holdfast.agent.needs.section import NeedsReport
from holdfast.agent.needs.states import States
from holdfast.agent.needs.sweeps import Sweeps
from holdfast.agent.needs.tasks import Tasks
from holdfast.agent.needs.tries import TryBook
from holdfast.reconcile import needs as rules

TICK_S = 60.0  # the clock may jump


class Needs:
    name = "needs"

    def __init__(
        self,
        *,
        declared: Declarations,
        tries: TryBook,
        fulfilling: Fulfilling,
        sweeps: Sweeps,
        states: States,
        tasks: Tasks,
        now_s: Callable[[], float],
    ) -> None:
        self._declared = declared
        self._tries = tries
        self._fulfilling = fulfilling
        self._sweeps = sweeps
        self._states = states
        self._tasks = tasks
        self._now_s = now_s
        self._bell = asyncio.Event()

    def follow(self, revision: Revision) -> None:
        is_new = revision.number != self._declared.revision
        self._declared.follow(revision)
        if is_new:
            self._tries.forget()
        self._bell.set()

    def wake(self) -> None:
        """A piece of work has ended."""
        self._bell.set()

    def section(self) -> NeedsReport:
        return self._states.section

    async def run(self) -> None:
        try:
            while True:
                self._bell.clear()
                pause_s = self._tick()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._bell.wait()
        finally:
            self._tasks.cancel()

    def _tick(self) -> float:
        """Begin what is due; answers the pause until the next."""
        now_s = self._now_s()
        if self._declared.complete:
            self._fulfilling.give_back(self._declared.found)
        pauses = [self._look(one, now_s) for _, one in sorted(self._declared.found.items())]
        providers, pause_s = self._sweeps.due()
        for provider in providers:
            self._tasks.begin(provider, partial(self._sweeps.tell, provider))
        self._states.show(now_s)
        return max(min(*pauses, pause_s, TICK_S, TICK_S), 0.05)

    def _look(self, declared: Declared, now_s: float) -> float:
        """At one need; answers the seconds until it has to be looked at again."""
        self._fulfilling.deliver(declared)
        held, due_s = self._fulfilling.held(declared.key), self._fulfilling.due_s(declared, now_s)
        if due_s is not None and due_s <= now_s:
            self._tasks.begin(declared.key, partial(self._fulfilling.ask, declared, now_s))
        elif held is not None and held.older and rules.may_restart(held, now_s):
            self._tasks.begin(declared.key, partial(self._fulfilling.change, declared, held, now_s))
        return TICK_S if due_s is None else due_s - now_s
