"""Measure the data of services now and then, and report what an update would cost. It changes no data."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from holdfast.agent.keeper import Revision, Stage
from holdfast.agent.lanes import Lanes
from holdfast.errors import HoldfastError
from holdfast.model.data_figures import DataFigures
from holdfast.model.deployment import ServiceState, StepResult
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Need, Storage
from holdfast.reconcile import downtime
from holdfast.reconcile.downtime import Learned

LOOK_S = 30.0
MEASURE_S = 600.0  # between two looks at every file of a service
SHARE = 100  # and at most this part of the time goes into them
FEW = 50
FACT = "figures/"
WAITS = "needs_operator"  # code of a rollout that goes on later

_learned = msgspec.json.Decoder(Learned).decode


class FiguresReport(Struct, frozen=True, omit_defaults=True):
    data: tuple[DataFigures, ...] = ()

    def shorter(self, stage: Stage) -> "FiguresReport":
        return FiguresReport(self.data[:FEW]) if stage == "ours_only" else FiguresReport() if stage == "few" else self


class Figures:
    """`states` are the services of this node as they are reported; `report` is called when the section changed."""

    name = "figures"

    def __init__(
        self,
        *,
        storage: Storage,
        journal: Journal,
        clock: Clock,
        lanes: Lanes,
        states: Callable[[], Sequence[ServiceState]],
        report: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._journal = journal
        self._clock = clock
        self._lanes = lanes
        self._states = states
        self._report = report
        self._bell = asyncio.Event()
        self._due_s: dict[str, float] = {}
        self._seen: dict[str, tuple[StepResult, ...]] = {}  # steps that were learned from
        self._found: dict[str, DataFigures] = {}
        self._section = FiguresReport()

    def follow(self, revision: Revision) -> None:
        self._bell.set()

    def wake(self) -> None:
        """A rollout may have ended."""
        self._bell.set()

    def section(self) -> FiguresReport:
        return self._section

    async def run(self) -> None:
        while True:
            self._bell.clear()
            await self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._bell.wait()

    async def _look(self) -> None:
        states = {one.service: one for one in self._states()}
        self._found = {name: one for name, one in self._found.items() if name in states}
        for name, state in states.items():
            if state.phase == "settling" or self._lanes.is_busy(name):
                continue
            is_new = state.steps != self._seen.get(name, ())
            if is_new or self._clock.monotonic_s() >= self._due_s.get(name, 0.0):
                await self._measure(name, state)
        section = FiguresReport(tuple(self._found[name] for name in sorted(self._found)))
        if section != self._section:
            self._section = section
            self._report()

    async def _measure(self, name: str, state: ServiceState) -> None:
        began_s = self._clock.monotonic_s()
        if state.steps != self._seen.get(name, ()):
            self._tidy(name, state)
        self._seen[name] = state.steps
        try:
            need = await asyncio.get_running_loop().run_in_executor(None, self._storage.need, name)
            known = self._learn(name, state, need)
        except HoldfastError:  # a full or broken disk is told by what needs it
            need = None
        took_s = self._clock.monotonic_s() - began_s
        self._due_s[name] = began_s + max(MEASURE_S, SHARE * took_s)
        self._found.pop(name, None)
        if need is not None:
            self._found[name] = _figures(name, need, known)

    def _tidy(self, name: str, state: ServiceState) -> None:
        """What was copied for a rollout that ended before its checkpoint is not needed. In the lane of the service:
        another rollout would use it."""
        if state.code == WAITS or not downtime.is_abandoned(state.steps):
            return

        async def drop() -> None:
            await asyncio.get_running_loop().run_in_executor(None, self._storage.drop_ahead, name)

        self._lanes.put(name, drop)

    def _learn(self, name: str, state: ServiceState, need: Need | None) -> Learned:
        text = self._journal.fact(FACT + name)
        before = _learned(text) if text is not None else Learned()
        looked_at = (need.written_bytes, need.files) if need is not None else (0, 0)
        now = downtime.learned(state.steps, before, *looked_at) if state.phase == "converged" else before
        if now != before:
            self._journal.set_aside(FACT + name, msgspec.json.encode(now))
        return now


def _figures(name: str, need: Need, known: Learned) -> DataFigures:
    short = downtime.two_digits
    return DataFigures(
        name,
        int(short(need.size_bytes)),
        int(short(need.files)),
        int(short(need.written_bytes)),
        int(short(max(need.room_bytes, 0))),
        short(downtime.estimated_s(known, need.written_bytes, need.files)),
    )
