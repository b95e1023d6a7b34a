"""Prove backups at their times and by order, and report it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.drills.books import Books
from holdfast.agent.drills.declared import Declarations
from holdfast.agent.drills.notes import Notes
from holdfast.agent.drills.rounds import Rounds
from holdfast.agent.keeper import Act, OrderRun, Revision, Stage
from holdfast.agent.time import NodeTime
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model.drill import DrillResult, DrillState
from holdfast.reconcile import drill as rules
from holdfast.reconcile.drill import Book

TICK_S = 15.0  # the clock may jump
AGAIN_S = 2.0  # after a drill gave way, or while something refuses
FEW = 50
REASON_MAX = 200


class DrillsReport(Struct, frozen=True, omit_defaults=True):
    drills: tuple[DrillState, ...] = ()

    def shorter(self, stage: Stage) -> "DrillsReport":
        if stage == "nothing":
            return DrillsReport()
        if stage == "certificates":
            return self
        kept = self.drills[:FEW] if stage == "few" else self.drills
        return DrillsReport(tuple(replace(one, last=_shorter(one.last)) for one in kept))


def _shorter(result: DrillResult | None) -> DrillResult | None:
    if result is None:
        return None
    return replace(result, lines=(), reason=result.reason[:REASON_MAX], checks=result.checks[:3])


class Drills:
    """`report` is called when its section changed."""

    name = "drills"

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        rounds: Rounds,
        time: NodeTime,
        notes: Notes,
        report: Callable[[], None],
    ) -> None:
        self._declared = declared
        self._books = books
        self._rounds = rounds
        self._time = time
        self._notes = notes
        self._report = report
        self._bell = asyncio.Event()
        self._section = DrillsReport()
        self.acts: Mapping[str, Act] = {
            "drill": Act(self._ordered, "compensate", "what was asked for is noted: holdfast backup list")
        }

    def follow(self, revision: Revision) -> None:
        self._declared.follow(revision)
        self._bell.set()

    def section(self) -> DrillsReport:
        return self._section

    def show(self) -> None:
        """Something that is reported may have changed."""
        states = tuple(self._state(service) for service in sorted(self._declared.found) if self._books.of(service))
        if states != self._section.drills:
            self._section = DrillsReport(states)
            self._report()

    async def run(self) -> None:
        self._tell_last()
        while True:
            self._bell.clear()
            self._open_books()
            due = self._due() if await self._rounds.tidy() else None
            if due is not None:
                await self._rounds.drill(due, self._declared.found[due])
            self.show()
            is_waiting = due is None and self._due() is None and self._rounds.is_tidy
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s() if is_waiting else AGAIN_S):
                    await self._bell.wait()

    def _tell_last(self) -> None:
        """Findings do not survive an agent; what they are about does."""
        for service in self._books.known():
            book = self._books.of(service)
            if book is not None and book.last is not None:
                self._notes.ended(service, book.last)

    def _open_books(self) -> None:
        """From the first backup on a service is known to need drills."""
        now_s = self._time.now_s()
        for service in self._declared.found:
            if self._books.of(service) is None and self._rounds.newest(service):
                with suppress(HoldfastError):  # the disk refuses: with the next tick
                    self._books.keep(service, Book(now_s))
        for service in set(self._books.known()) - self._declared.found.keys() if self._declared.complete else ():
            self._notes.forget(service)

    # ---- when

    def _due(self) -> str | None:
        """The one that has waited longest."""
        now_s = self._time.now_s()
        dues = sorted((self._next_s(service, book), service) for service, book in self._open().items())
        return next((service for next_s, service in dues if next_s <= now_s and self._rounds.may(service)), None)

    def _open(self) -> dict[str, Book]:
        found = ((service, self._books.of(service)) for service in self._declared.found)
        return {service: book for service, book in found if book is not None}

    def _next_s(self, service: str, book: Book) -> float:
        times = self._declared.times
        phase_s = times.phase_s(service, self._declared.node)
        return rules.next_s(book, phase_s, self._time.now_s(), times, self._rounds.newest(service))

    def _pause_s(self) -> float:
        now_s = self._time.now_s()
        nexts = [self._next_s(service, book) - now_s for service, book in self._open().items()]
        return max(min([*nexts, TICK_S]), 0.5)

    # ---- the report

    def _state(self, service: str) -> DrillState:
        book, now_s = self._books.of(service), self._time.now_s()
        assert book is not None
        mine = self._rounds.now if self._rounds.now is not None and self._rounds.now.service == service else None
        proven, is_overdue = book.newest_proven, rules.is_overdue(book, now_s, self._declared.times)
        proven_s = book.proven.get(proven, 0.0)
        self._notes.overdue(service, (now_s - proven_s if proven_s else 0.0) if is_overdue else None)
        return DrillState(
            service,
            next_s=self._next_s(service, book),
            last=book.last,
            proven_s=proven_s,
            proven=proven,
            proven_made_s=book.proven_made.get(proven, 0.0),
            running_s=mine.since_s if mine is not None else 0.0,
            step=mine.step if mine is not None else "",
            done_bytes=mine.progress.size_bytes if mine is not None else 0,
            total_bytes=mine.progress.total_bytes if mine is not None else 0,
            overdue=is_overdue,
        )

    # ---- by order, or brought forward by a hub

    async def _ordered(self, run: OrderRun) -> str:
        target = run.proof.order.target if run.proof is not None else run.operation.lane
        service, now_s = target.removeprefix("service."), self._time.now_s()
        if service not in self._declared.found:
            raise Invalid(
                f"{service} has no data on this node that is backed up",
                remedy='declare protect = "backup" for a volume; `holdfast backup list` shows what is backed up',
                code="not_found",
            )
        order = run.operation.order if run.proof is not None else ""
        backup = run.proof.arguments.get("backup", "") if run.proof is not None else ""
        book = self._books.of(service) or Book(now_s)
        if order and book.asked_by and not self._rounds.is_running(service, book.asked_by):
            raise Conflict(
                f"a drill of {service} is asked for already, by order {book.asked_by[:16]}, and begins soon",
                remedy=f"`holdfast backup list {service}` shows its end",
                code="drill_waits",
            )
        self._books.keep(service, rules.asked(book, now_s, order, backup))
        self._bell.set()
        return f"a drill of service.{service} begins"
