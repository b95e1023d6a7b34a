"""Figures about the data of services: when they are measured, what is learned, what is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.agent.figures.keeper import FACT, FEW, LOOK_S, MEASURE_S, SHARE, Figures, FiguresReport
from holdfast.agent.lanes import Lanes
from holdfast.errors import Failed
from holdfast.model.data_figures import DataFigures
from holdfast.model.deployment import ServiceState, StepResult
from holdfast.ports.storage import Need
from holdfast.reconcile.downtime import Learned
from tests.fleets.virtual import VirtualLoop, run

COPY, STOP, SWITCH = (
    StepResult("copy main", "done", 0.0, 1.0),
    StepResult("stop old main 0", "done", 10.0, 1.0),
    StepResult("switch", "done", 14.0, 1.0),
)


class Disk(MemoryStorage):
    """Counts its measurements; `takes_s` is how long one takes, and `trouble` is what it raises."""

    def __init__(self, clock: "Clock") -> None:
        super().__init__("w1", {"web": {"a": b"12345"}})
        self.clock = clock
        self.measured: list[str] = []
        self.dropped: list[str] = []
        self.takes_s = 0.0
        self.trouble: Failed | None = None

    def need(self, service: str, off: Any = ()) -> Need | None:
        self.measured.append(service)
        self.clock.more_s += self.takes_s
        if self.trouble is not None:
            raise self.trouble
        return super().need(service, off)

    def drop_ahead(self, service: str) -> None:
        self.dropped.append(service)


class Clock(LoopClock):
    more_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.more_s


class Bench:
    def __init__(self, loop: VirtualLoop) -> None:
        self.states: list[ServiceState] = [self.state()]
        self.told = 0
        self.journal, self.lanes = MemoryJournal(), Lanes()
        self.clock = Clock(loop, 0.0)
        self.disk = Disk(self.clock)
        self.figures = Figures(
            storage=self.disk,
            journal=self.journal,
            clock=self.clock,
            lanes=self.lanes,
            states=lambda: self.states,
            report=self._report,
        )

    def _report(self) -> None:
        self.told += 1

    @staticmethod
    def state(phase: Any = "converged", *steps: StepResult, **more: Any) -> ServiceState:
        return ServiceState("web", phase, "d1", steps=steps, **more)

    async def after(self, seconds: float) -> list[DataFigures]:
        await asyncio.sleep(seconds)
        return list(self.figures.section().data)

    def learned(self) -> Learned | None:
        text = self.journal.fact(FACT + "web")
        return msgspec.json.decode(text, type=Learned) if text is not None else None


def play(story: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        bench = Bench(loop)
        task = asyncio.ensure_future(bench.figures.run())
        try:
            await story(bench)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(main)


def test_data_is_measured_every_ten_minutes_and_told_only_if_it_changed() -> None:
    async def story(bench: Bench) -> None:
        assert [one.size_bytes for one in await bench.after(1)] == [5] and bench.told == 1
        await bench.after(MEASURE_S - 2 * LOOK_S)
        assert bench.disk.measured == ["web"]
        await bench.after(3 * LOOK_S)
        assert bench.disk.measured == ["web"] * 2 and bench.told == 1
        bench.disk.contents["web"]["b"] = b"123"
        assert [(one.size_bytes, one.files) for one in await bench.after(MEASURE_S + LOOK_S)] == [(8, 2)]
        assert bench.told == 2

    play(story)


def test_a_measurement_that_takes_long_is_made_rarely() -> None:
    async def story(bench: Bench) -> None:
        bench.disk.takes_s = 60.0
        await bench.after(10 * MEASURE_S - 2 * LOOK_S)
        assert bench.disk.measured == ["web"], "at most a hundredth of the time"
        assert SHARE * bench.disk.takes_s == 10 * MEASURE_S
        await bench.after(4 * LOOK_S)
        assert len(bench.disk.measured) == 2

    play(story)


def test_steps_that_are_new_are_learned_from_at_the_next_look() -> None:
    async def story(bench: Bench) -> None:
        (before,) = await bench.after(1)
        bench.states = [bench.state("converged", STOP, SWITCH)]
        (now,) = await bench.after(LOOK_S + 1)
        assert len(bench.disk.measured) == 2 and bench.learned() == Learned(5.0, at_s=15.0)
        assert (before.down_s, now.down_s) == (0.2, 5.2)

    play(story)


def test_how_slow_the_last_checkpoint_was_is_learned_from_what_it_had_to_look_at() -> None:
    """By the constants 20,000 files and 8 GB take 1.5 s; this node took 3 s for them."""

    async def story(bench: Bench) -> None:
        bench.disk.need = lambda service, off=(): Need(1, 20_000, 8_000_000_000, 1, 1, 0)  # type: ignore[method-assign]
        bench.states = [bench.state("converged", STOP, StepResult("checkpoint main", "done", 11.0, 3.0), SWITCH)]
        (found,) = await bench.after(LOOK_S + 1)
        assert bench.learned() == Learned(2.0, 2.0, 15.0) and found.down_s == 5.0
        bench.disk.need = lambda service, off=(): Need(1, 1, 0, 1, 1, 0)  # type: ignore[method-assign]
        (later,) = await bench.after(MEASURE_S + LOOK_S)
        assert bench.learned() == Learned(2.0, 2.0, 15.0), "by what its data became nothing is learned again"
        assert later.down_s == 2.4

    play(story)


def test_only_a_rollout_that_ended_well_is_learned_from() -> None:
    async def story(bench: Bench) -> None:
        bench.states = [bench.state("failed", STOP, SWITCH)]
        await bench.after(LOOK_S + 1)
        assert bench.learned() is None and bench.disk.measured == ["web"]

    play(story)


def test_a_service_under_way_is_not_measured() -> None:
    async def story(bench: Bench) -> None:
        bench.states = [bench.state("settling")]
        assert await bench.after(2 * LOOK_S) == [] and bench.disk.measured == []
        bench.states = [bench.state()]
        ended = asyncio.Event()

        async def busy() -> None:
            await ended.wait()

        bench.lanes.put("web", busy)
        assert await bench.after(2 * LOOK_S) == [] and bench.disk.measured == []
        ended.set()
        assert len(await bench.after(2 * LOOK_S)) == 1

    play(story)


def test_what_was_copied_ahead_in_vain_is_dropped_once_and_not_if_the_rollout_goes_on() -> None:
    async def story(bench: Bench) -> None:
        bench.states = [bench.state("failed", COPY, code="needs_operator")]
        await bench.after(LOOK_S + 1)
        assert bench.disk.dropped == []
        bench.states = [bench.state("failed", COPY, STOP, code="no_space")]
        await bench.after(2 * MEASURE_S)
        assert bench.disk.dropped == ["web"], "a later rollout may have copied again"

    play(story)


def test_a_disk_that_cannot_be_read_and_data_that_is_gone_have_no_figures() -> None:
    async def story(bench: Bench) -> None:
        assert len(await bench.after(1)) == 1
        bench.disk.trouble = Failed("a bad block", remedy="df")
        assert await bench.after(MEASURE_S + LOOK_S) == []
        bench.disk.trouble = None
        assert len(await bench.after(MEASURE_S + LOOK_S)) == 1
        del bench.disk.contents["web"]
        assert await bench.after(MEASURE_S + LOOK_S) == []

    play(story)


def test_the_forecast_counts_bytes_as_bytes_and_files_as_files() -> None:
    async def story(bench: Bench) -> None:
        real = bench.disk.need

        def need(service: str, off: Any = ()) -> Need | None:
            found = real(service, off)
            return found and Need(8 << 30, 2, 8 << 30, -5, 1 << 40, 0)

        bench.disk.need = need  # type: ignore[method-assign]
        (found,) = await bench.after(1)
        assert (found.written_bytes, found.files, found.free_bytes) == (8_600_000_000, 2, 0)
        assert found.down_s == 1.3

    play(story)


def test_a_report_that_is_too_long_has_fewer_figures() -> None:
    whole = FiguresReport(tuple(DataFigures(f"s{number}", 1, 1) for number in range(FEW + 5)))
    assert whole.shorter("few_steps") == whole
    assert whole.shorter("ours_only").data == whole.data[:FEW]
    assert whole.shorter("few") == FiguresReport()
