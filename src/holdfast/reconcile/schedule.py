"""Decide which runs of a schedule begin: each minute once, late ones not at all. Pure.

`Book` is what the node keeps on its disk about one schedule. Every minute up to `decided_s` was decided, and a decision
is on the disk before anything is started: so no clock and no crash makes a minute run twice.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.schedule import RunResult, Schedule

LATE_S = 300.0  # a run begins at most so long after its minute; later it is missed
AHEAD_S = 25 * 3600.0  # a decision so far in the future was made with a wrong clock
QUEUE_MAX = 10
ORDERED_MAX, ORDERED_S = 3, 3600.0  # so many results of runs by order are kept besides the last one, for so long
PAUSES_S = (10.0, 30.0, 60.0)  # before the second, third … attempt

# creating: its container does not exist, or was not started. starting: it may have been started.
Stage = Literal["creating", "starting"]


class Run(Struct, frozen=True, omit_defaults=True):
    """A run under way. Each attempt has a container of its own."""

    due_s: float
    begun_s: float  # when this attempt may begin
    container: str
    timeout_s: float
    attempt: int = 1
    stage: Stage = "creating"
    boot: str = ""  # of the machine when it was started
    order: str = ""


class Book(Struct, frozen=True, omit_defaults=True):
    decided_s: float
    cron: str
    timezone: str
    run: Run | None = None
    queue: tuple[float, ...] = ()  # minutes that wait for the run before them
    last: RunResult | None = None
    missed: int = 0
    missed_s: float = 0.0
    skipped: int = 0
    left: str = ""  # the container of the last attempt; it may be left after a crash
    ordered: tuple[RunResult, ...] = ()  # the newest results of runs by order before `last`


def opened(before: Book | None, schedule: Schedule, now_s: float) -> Book:
    """The book of this schedule as declared now. A schedule that is new or at other minutes begins now."""
    if before is None:
        return Book(now_s, schedule.cron, schedule.timezone)
    if (before.cron, before.timezone) != (schedule.cron, schedule.timezone) or before.decided_s > now_s + AHEAD_S:
        return replace(before, decided_s=now_s, cron=schedule.cron, timezone=schedule.timezone)
    return before


def decide(book: Book, minutes: Sequence[float], now_s: float, overlap: str, idle: bool) -> tuple[Book, float | None]:
    """`minutes` are those after `decided_s` up to now, oldest first. Answers the minute of a run that begins now, if
    any. While the service is idle none begins, and none is missed."""
    if not minutes:
        return book, None
    book = replace(book, decided_s=minutes[-1])
    if idle:
        return replace(book, queue=()), None
    late = [minute for minute in minutes if now_s - minute > LATE_S]
    fresh = minutes[len(late) :]
    if overlap == "queue":
        waiting = (*book.queue, *fresh)
        book = _missed(replace(book, queue=waiting[:QUEUE_MAX]), [*late, *waiting[QUEUE_MAX:]])
        return book, None
    if book.run is not None:
        return _missed(replace(book, skipped=book.skipped + len(fresh)), late), None
    return _missed(book, minutes[:-1] if fresh else minutes), (fresh[-1] if fresh else None)


def from_queue(book: Book) -> tuple[Book, float | None]:
    """The next minute that waited, once no run is under way. A queue is worked off however late."""
    if book.run is not None or not book.queue:
        return book, None
    return replace(book, queue=book.queue[1:]), book.queue[0]


def begun(book: Book, run: Run) -> Book:
    return replace(book, run=run)


def again(book: Book, container: str, now_s: float) -> Book:
    """Another attempt of the run under way, after a pause."""
    run = book.run
    assert run is not None
    attempt = run.attempt + 1
    begun_s = now_s + PAUSES_S[min(attempt - 2, len(PAUSES_S) - 1)]
    after = replace(run, attempt=attempt, begun_s=begun_s, container=container, stage="creating")
    return replace(book, run=after, left=run.container)


def ended(book: Book, result: RunResult | None) -> Book:
    """The run is over; None: it did not begin, because its service was stopped. One that was done ends the count of
    what went wrong."""
    assert book.run is not None
    book = replace(book, run=None, left=book.run.container)
    if result is None:
        return book
    counts = (0, 0.0, 0) if result.outcome == "done" else (book.missed, book.missed_s, book.skipped)
    ordered = _ordered(book, result.started_s + result.duration_s)
    return replace(book, last=result, ordered=ordered, missed=counts[0], missed_s=counts[1], skipped=counts[2])


def _ordered(book: Book, now_s: float) -> tuple[RunResult, ...]:
    """The command that ordered a run asks for its result now and then: another run may have ended meanwhile."""
    before = (*book.ordered, book.last) if book.last is not None and book.last.order else book.ordered
    return tuple(one for one in before if now_s - one.started_s - one.duration_s < ORDERED_S)[-ORDERED_MAX:]


def is_late(run: Run, now_s: float) -> bool:
    return now_s - run.begun_s > LATE_S


def is_too_late(run: Run, now_s: float) -> bool:
    """For a run that an agent finds at its start."""
    return run.stage == "creating" and is_late(run, now_s)


def too_late(book: Book, now_s: float) -> Book:
    """A first attempt is missed; after a failed one, or by order, the run has failed."""
    run = book.run
    assert run is not None
    if run.attempt == 1 and not run.order:
        return ended(_missed(book, [run.due_s]), None)
    return not_begun(book, "no agent ran in time, or a rollout was interrupted", now_s)


def not_begun(book: Book, why: str, now_s: float) -> Book:
    """This attempt does not begin. A first one leaves nothing behind; after a failed one the run has failed. A run by
    order has a result in any case: its command waits for it."""
    run = book.run
    assert run is not None
    if run.attempt == 1 and not run.order:
        return ended(book, None)
    before = "did not begin" if run.attempt == 1 else f"failed, and attempt {run.attempt} did not begin"
    result = RunResult(run.due_s, now_s, 0.0, "failed", None, run.attempt - 1, f"{before}: {why}", order=run.order)
    return ended(book, result)


def unstarted(book: Book) -> Book:
    """Its container was never started: another one is created."""
    assert book.run is not None
    return replace(book, run=replace(book.run, stage="creating", boot=""))


def _missed(book: Book, minutes: Sequence[float]) -> Book:
    if not minutes:
        return book
    return replace(book, missed=book.missed + len(minutes), missed_s=max(*minutes, book.missed_s))
