"""Begin the runs of schedules at their minutes, by order, and report them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice, takewhile

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.keeper import Act, OrderRun, Revision, Stage
from holdfast.agent.schedules.books import Books
from holdfast.agent.schedules.declared import NOT_DEPLOYED, NOT_SERVING, Declarations, Declared
from holdfast.agent.schedules.names import container_name
from holdfast.agent.schedules.notes import Key, Notes
from holdfast.agent.schedules.runs import Runs
from holdfast.agent.time import NodeTime
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model import duration
from holdfast.model.schedule import RunResult, ScheduleState
from holdfast.ports.calendar import Calendar
from holdfast.reconcile import schedule as rules
from holdfast.reconcile.schedule import Book, Run

TICK_S = 15.0  # the clock may jump
REFUSED_S = 2.0  # between two tries while the disk refuses
MINUTES_MAX = 2_000  # decided at once
LINES_FEW = 3
FEW = 50


class SchedulesReport(Struct, frozen=True, omit_defaults=True):
    schedules: tuple[ScheduleState, ...] = ()

    def shorter(self, stage: Stage) -> "SchedulesReport":
        if stage == "nothing":
            return SchedulesReport()
        lines = {"certificates": None, "few_steps": LINES_FEW}.get(stage, 0)
        kept = self.schedules[:FEW] if stage == "few" else self.schedules
        return self if lines is None else SchedulesReport(tuple(_shortened(one, lines) for one in kept))


def _until_it_serves(service: str, idle: str) -> str:
    if idle in (NOT_DEPLOYED, NOT_SERVING):
        return (
            f"`holdfast ps {service}` shows whether it serves; `holdfast status` shows why not; then repeat the command"
        )
    return f"`holdfast start {service}` starts a stopped service; then repeat the command"


def _shortened(state: ScheduleState, lines: int) -> ScheduleState:
    last = _with_lines(state.last, lines) if state.last is not None else None
    ordered = tuple(_with_lines(one, lines) for one in state.ordered) if lines else ()
    return replace(state, last=last, ordered=ordered)


def _with_lines(result: RunResult, lines: int) -> RunResult:
    return replace(result, lines=result.lines[len(result.lines) - lines :][:lines])


class Schedules:
    """`report` is called when its section changed."""

    name = "schedules"

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        runs: Runs,
        calendar: Calendar,
        time: NodeTime,
        notes: Notes,
        report: Callable[[], None],
    ) -> None:
        self._declared = declared
        self._books = books
        self._runs = runs
        self._calendar = calendar
        self._time = time
        self._notes = notes
        self._report = report
        self._bell = asyncio.Event()
        self._refused: set[Key] = set()  # what could not be decided or dropped
        self._section = SchedulesReport()
        self.acts: Mapping[str, Act] = {
            "run-schedule": Act(self._ordered, "compensate", "a run that was begun goes on: holdfast schedule list")
        }

    def follow(self, revision: Revision) -> None:
        self._declared.follow(revision)
        self._bell.set()

    def wake(self) -> None:
        """A book changed: a run may be over, and another one wait for it."""
        self._bell.set()

    def looked(self) -> None:
        """What is on this machine changed. Without any schedule nothing else wakes this keeper, and a run of a lost
        journal may be there."""
        if not self._declared.found:
            self._bell.set()

    def section(self) -> SchedulesReport:
        return self._section

    async def run(self) -> None:
        self._runs.resume()
        try:
            while True:
                self._bell.clear()
                pause_s = self._tick()
                try:
                    await self._runs.take_over()
                except HoldfastError:  # the runtime does not answer, or the disk is full
                    pause_s = min(pause_s or TICK_S, TICK_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._bell.wait()
        except asyncio.CancelledError:
            await self._runs.end()  # after a mistake they go on: this loop runs again
            raise

    # ---- a tick

    def _tick(self) -> float | None:
        """Decide every minute up to now; answers the pause until the next one, None without any schedule."""
        now_s = self._time.now_s()
        for key, declared in sorted(self._declared.found.items()):
            try:
                self._decide(key, declared, now_s)
                self._goes_on(key)
            except HoldfastError as trouble:
                self._waits(key, trouble)
        for key in self._books.known():
            book = self._books.of(key)
            is_gone = self._declared.complete and key not in self._declared.found
            if is_gone and book is not None and book.run is None and not book.left:
                try:
                    self._books.drop(key)
                    self._refused.discard(key)
                except HoldfastError as trouble:
                    self._waits(key, trouble)
        states = tuple(self._state(key, declared) for key, declared in sorted(self._declared.found.items()))
        if states != self._section.schedules:
            self._section = SchedulesReport(states)
            self._report()
        if self._refused:
            return REFUSED_S
        nexts = [state.next_s - now_s for state in states if state.next_s]
        return max(min(*nexts, TICK_S, TICK_S), 0.05) if states else None

    def _waits(self, key: Key, trouble: HoldfastError) -> None:
        self._refused.add(key)
        self._notes.waits(key, trouble)

    def _goes_on(self, key: Key) -> None:
        """What a run waits for is told by the run itself."""
        if key in self._refused:
            self._refused.discard(key)
            self._notes.goes_on(key)

    def _decide(self, key: Key, declared: Declared, now_s: float) -> None:
        schedule, why = declared.schedule, self._declared.idle(key)
        if why == NOT_DEPLOYED:  # its minutes are decided once it is deployed: those that are late then are missed
            return
        book = rules.opened(self._books.of(key), schedule, now_s)
        following = self._calendar.minutes(schedule.fields, schedule.timezone, book.decided_s)
        minutes = list(islice(takewhile(lambda minute: minute <= now_s, following), MINUTES_MAX))
        idle = bool(why)
        book, due_s = rules.decide(book, minutes, now_s, schedule.overlap, idle)
        if due_s is None and not idle:
            book, due_s = rules.from_queue(book)
        if due_s is not None:
            book = rules.begun(book, self._run(key, declared, due_s, now_s))
        self._books.keep(key, book)
        if due_s is not None:
            self._runs.carry(key)

    def _run(self, key: Key, declared: Declared, due_s: float, now_s: float, order: str = "") -> Run:
        spec = self._declared.spec(key)
        assert spec is not None, "else it is idle"
        timeout_s = duration.milliseconds(declared.schedule.timeout) / 1000
        return Run(due_s, now_s, container_name(spec, declared.schedule.name, due_s), timeout_s, order=order)

    def _state(self, key: Key, declared: Declared) -> ScheduleState:
        schedule = declared.schedule
        book = self._books.of(key) or Book(0.0, schedule.cron, schedule.timezone)
        run, idle, now_s = book.run, self._declared.idle(key), self._time.now_s()
        after_s = now_s if idle == NOT_DEPLOYED else max(book.decided_s, now_s - rules.LATE_S)
        try:
            next_s = next(self._calendar.minutes(schedule.fields, schedule.timezone, after_s), 0.0)
        except HoldfastError:
            next_s = 0.0
        return ScheduleState(
            *key,
            schedule.cron,
            schedule.timezone,
            next_s=next_s,
            idle=idle,
            running_s=run.begun_s if run is not None else 0.0,
            attempt=run.attempt if run is not None else 0,
            queued=len(book.queue),
            last=book.last,
            missed=book.missed,
            missed_s=book.missed_s,
            skipped=book.skipped,
            ordered=book.ordered,
        )

    # ---- an order

    async def _ordered(self, order: OrderRun) -> str:
        """Begins the run, and does not wait for its end: a run may take hours."""
        proof = order.proof
        assert proof is not None, "no hub may order this without a signature"
        key = (proof.order.target.removeprefix("service."), proof.arguments.get("schedule", ""))
        declared = self._declared.found.get(key)
        if declared is None:
            raise Invalid(
                f"{key[0]} has no schedule {key[1]!r} on this node",
                remedy="holdfast schedule list",
                code="not_found",
            )
        if idle := self._declared.idle(key):
            raise Conflict(
                f"no run of {key[1]} begins: {idle}",
                remedy=_until_it_serves(key[0], idle),
                code="idle",
            )
        now_s = self._time.now_s()
        book = rules.opened(self._books.of(key), declared.schedule, now_s)
        if book.run is not None:
            raise Conflict(
                f"a run of {key[1]} is under way",
                remedy=f"`holdfast schedule list {key[0]}` shows it; repeat the command when it is over",
                code="run_under_way",
            )
        run = self._run(key, declared, float(int(now_s)), now_s, proof.order.id)
        self._books.keep(key, rules.begun(book, run))
        self._runs.carry(key)
        return f"a run of {key[1]} of service.{key[0]} has begun"
