"""Back services up at their times and by order, and report it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.backups.books import Books
from holdfast.agent.backups.declared import Declarations, Wanted
from holdfast.agent.backups.notes import Notes
from holdfast.agent.backups.restores.restoring import Restoring
from holdfast.agent.backups.rounds import Rounds
from holdfast.agent.backups.runs import LOOK_S, ended
from holdfast.agent.keeper import Act, OrderRun, Revision, Stage
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError, Invalid
from holdfast.model import backup_key
from holdfast.model.backup_report import BackupState, RestoreState, TargetReport
from holdfast.reconcile import backup_due as rules
from holdfast.reconcile.backup_due import Book

TICK_S = 15.0  # the clock may jump
AGAIN_S = 2.0  # after a backup gave way, or while the disk refuses
FEW = 50
TROUBLE_MAX = 200


class BackupsReport(Struct, frozen=True, omit_defaults=True):
    backups: tuple[BackupState, ...] = ()
    targets: tuple[TargetReport, ...] = ()
    restores: tuple[RestoreState, ...] = ()

    def shorter(self, stage: Stage) -> "BackupsReport":
        if stage == "nothing":
            return BackupsReport()
        if stage in ("certificates", "few_steps"):
            return self
        kept = self.backups[:FEW] if stage == "few" else self.backups
        short = tuple(replace(one, trouble=one.trouble[:TROUBLE_MAX], copies=()) for one in kept)
        targets = tuple(replace(one, reason=one.reason[:TROUBLE_MAX]) for one in self.targets)
        return BackupsReport(short, targets, self.restores)


class Backups:
    """`report` is called when its section changed."""

    name = "backups"

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        rounds: Rounds,
        time: NodeTime,
        notes: Notes,
        report: Callable[[], None],
        restoring: Restoring,
    ) -> None:
        self._declared = declared
        self._books = books
        self._rounds = rounds
        self._time = time
        self._notes = notes
        self._report = report
        self._restoring = restoring
        self._bell = asyncio.Event()
        self._section = BackupsReport()
        self.acts: Mapping[str, Act] = {
            **restoring.acts,
            "backup": Act(self._ordered, "compensate", "what was asked for is noted: holdfast backup list"),
        }

    def follow(self, revision: Revision) -> None:
        self._declared.follow(revision)
        self._rounds.follow(revision)
        self._bell.set()

    def section(self) -> BackupsReport:
        return self._section

    def show(self) -> None:
        """Something that is reported may have changed."""
        states = tuple(self._state(wanted) for _, wanted in sorted(self._declared.found.items()))
        section = BackupsReport(states, self._rounds.targets(), self._restoring.states())
        if section != self._section:
            self._section = section
            self._report()

    async def run(self) -> None:
        while True:
            self._bell.clear()
            self._declared.look()
            self._open_books()
            due = self._due()
            if due is not None:
                await self._rounds.back_up(due)
            await self._until_due(self._rounds.care())
            self.show()
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S if self._due() is not None else self._pause_s()):
                    await self._bell.wait()

    async def _until_due(self, care: Coroutine[Any, Any, None]) -> None:
        """A target that is slow to read, or to free space, delays no backup."""
        task = asyncio.ensure_future(care)
        try:
            while not task.done() and self._due() is None:
                await asyncio.wait({task}, timeout=LOOK_S)
            if task.done():
                task.result()
        finally:
            await ended(task)

    def _open_books(self) -> None:
        """From now on a service is known to need backups, and a stale one is noticed."""
        now_s = self._time.now_s()
        for service in self._declared.found.keys() - set(self._books.known()):
            with suppress(HoldfastError):  # the disk refuses: with the next tick
                self._books.keep(service, Book(now_s))
        for service in set(self._books.known()) - self._declared.found.keys() if self._declared.complete else ():
            self._notes.forget(service)

    # ---- when

    def _due(self) -> Wanted | None:
        """The one that has waited longest."""
        now_s = self._time.now_s()
        dues = [(self._next_s(wanted, now_s), name) for name, wanted in self._declared.found.items()]
        for next_s, name in sorted(dues):
            if next_s <= now_s and self._rounds.has_data(self._declared.found[name]):
                return self._declared.found[name]
        return None

    def _next_s(self, wanted: Wanted, now_s: float) -> float:
        times = self._declared.times
        phase_s = times.phase_s(wanted.service, self._declared.node)
        return rules.next_s(self._book(wanted.service), now_s, times, phase_s)

    def _pause_s(self) -> float:
        now_s = self._time.now_s()
        nexts = [self._next_s(wanted, now_s) - now_s for wanted in self._declared.found.values()]
        return max(min([*nexts, TICK_S]), 0.5)

    def _book(self, service: str) -> Book:
        return self._books.of(service, self._time.now_s())

    # ---- the report

    def _state(self, wanted: Wanted) -> BackupState:
        service, now_s = wanted.service, self._time.now_s()
        book, running = self._book(service), self._rounds.now
        mine = running if running is not None and running.service == service else None
        is_stale = rules.is_stale(book, now_s, self._declared.times)
        self._notes.stale(service, (now_s - book.last_s if book.last_s else 0.0) if is_stale else None)
        return BackupState(
            service,
            next_s=self._next_s(wanted, now_s),
            last=book.last,
            running_s=mine.since_s if mine is not None else 0.0,
            done_bytes=mine.progress.size_bytes if mine is not None else 0,
            total_bytes=mine.progress.total_bytes if mine is not None else 0,
            failures=book.failures,
            trouble=book.trouble,
            stale=is_stale,
            failed_by=book.failed_by,
            copies=self._rounds.copies(service),
        )

    # ---- by order, or brought forward by a hub

    async def _ordered(self, run: OrderRun) -> str:
        target = run.proof.order.target if run.proof is not None else run.operation.lane
        service = target.removeprefix("service.")
        if run.proof is not None and run.proof.arguments.get("what") == "hub":
            service = backup_key.of_hub(backup_key.node_of(service))
        is_hubs_wish = run.proof is None and backup_key.hub_of(service)  # no hub says when it is copied
        if service not in self._declared.found or is_hubs_wish:
            raise Invalid(
                f"{service} has no data on this node that is backed up",
                remedy='declare protect = "backup" for a volume; `holdfast backup list` shows what is backed up',
                code="not_found",
            )
        order = run.operation.order if run.proof is not None else ""
        self._books.keep(service, rules.asked(self._book(service), self._time.now_s(), order))
        self._bell.set()
        return f"a backup of {backup_key.subject(service)} begins"
