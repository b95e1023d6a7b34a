"""Carry a run to its end: its attempts, each beside the service and never during its replacement."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from holdfast.agent.keeping import Keeping
from holdfast.agent.lanes import Lanes
from holdfast.agent.schedules.attempts import Attempts, Ended
from holdfast.agent.schedules.books import Books
from holdfast.agent.schedules.declared import NOT_DEPLOYED, Declarations
from holdfast.agent.schedules.names import Named, attempt_name, parsed
from holdfast.agent.schedules.notes import Key, Notes
from holdfast.agent.services.data.volumes import OWED
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError, TryLater
from holdfast.model import duration
from holdfast.model.container import Container, ContainerSpec, spec_digest
from holdfast.model.schedule import RunResult
from holdfast.reconcile import schedule as rules
from holdfast.reconcile.schedule import Book, Run

TRY_S = 2.0  # between two tries while the runtime or the disk refuses


class Runs:
    """A run that an agent finds under way at its start goes on from its stage. `boot` is the id of this boot."""

    def __init__(
        self,
        *,
        books: Books,
        declared: Declarations,
        attempts: Attempts,
        lanes: Lanes,
        time: NodeTime,
        keeping: Keeping,
        notes: Notes,
        boot: str,
    ) -> None:
        self._books = books
        self._declared = declared
        self._attempts = attempts
        self._lanes = lanes
        self._time = time
        self._keeping = keeping
        self._notes = notes
        self._boot = boot
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def resume(self) -> None:
        """What an agent before this one left. A run that is too late is over before the next minute is decided."""
        for key in self._books.known():
            if key in self._tasks:  # this agent itself, before a mistake
                continue
            book, now_s = self._book(key), self._time.now_s()
            if book.run is not None and rules.is_too_late(book.run, now_s):
                with suppress(HoldfastError):  # then it is found too late when it is carried
                    self._books.keep(key, rules.too_late(book, now_s))
            for name in (book.run.container if book.run is not None else "", book.left):
                if name:
                    with suppress(HoldfastError):
                        self._attempts.own(name)  # an agent of an earlier release did not note it
            if book.run is not None or book.left:
                self.carry(key)

    async def take_over(self) -> None:
        """After a lost journal: a container that is exactly what a declared schedule runs now is a run of it. Any other
        one is reported."""
        if not self._declared.complete:
            return
        found = [(one, parsed(one.name)) for one in await self._attempts.unknown()]
        mine = [(one, named) for one, named in found if named is not None and self._is_wanted(one, named)]
        self._notes.unknown({one.name for one, _ in found} - {one.name for one, _ in mine})
        for one, named in sorted(mine, key=lambda each: (each[0].running, each[1].due_s), reverse=True):
            self._take_over((named.service, named.schedule), one, named)

    def _is_wanted(self, one: Container, named: Named) -> bool:
        """Or it is not known yet: the service does not serve."""
        key = (named.service, named.schedule)
        spec = self._declared.spec(key)
        if spec is None:
            return key in self._declared.found
        return one.spec == spec_digest(spec) and one.name == named.of(spec)

    def _take_over(self, key: Key, one: Container, named: Named) -> None:
        """One at a time. Its end is known only if it still runs: a boot may have ended it. No older result replaces a
        newer one."""
        declared, book = self._declared.found[key], self._books.of(key)
        book = rules.opened(book, declared.schedule, self._time.now_s())
        held = (book.left, book.run.container if book.run is not None else "")
        if one.name not in held:
            if self._declared.spec(key) is None or any(held):
                return
            if book.last is not None and book.last.due_s >= named.due_s and not one.running:
                book = replace(book, left=one.name)
            else:
                boot = self._boot if one.running else ""
                timeout_s = duration.milliseconds(declared.schedule.timeout) / 1000
                run = Run(named.due_s, named.due_s, one.name, timeout_s, named.attempt, "starting", boot)
                book = rules.begun(book, run)
            self._books.keep(key, book)
            self.carry(key)
        self._attempts.own(one.name)  # last: what the journal names is not looked for again

    def carry(self, key: Key) -> None:
        """Does nothing if it is carried already."""
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.ensure_future(self._keeping.keep(lambda: self._insist(key)))
            task.add_done_callback(lambda ended: self._ended(key, ended))

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        """The next run may have begun while the task of the one before was about to end."""
        del self._tasks[key]
        book = self._books.of(key)
        if not task.cancelled() and book is not None and (book.run is not None or book.left):
            self.carry(key)

    async def end(self) -> None:
        """The agent ends; the containers go on."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _insist(self, key: Key) -> None:
        """However long the disk or the runtime refuses."""
        while True:
            try:
                await self._carry(key)
                return
            except HoldfastError as trouble:
                self._notes.waits(key, trouble)
            await asyncio.sleep(TRY_S)

    async def _carry(self, key: Key) -> None:
        while True:
            book, now_s = self._book(key), self._time.now_s()
            if book.run is None and not book.left:
                self._notes.goes_on(key)
                return
            if book.run is None:
                async with self._lanes.shared(key[0]):
                    await self._tidy(key)
            elif rules.is_too_late(book.run, now_s):
                self._books.keep(key, rules.too_late(book, now_s))
            else:
                if book.run.begun_s > now_s:
                    await asyncio.sleep(min(book.run.begun_s - now_s, rules.PAUSES_S[-1]))
                if not await self._beside(key, book.run):
                    await asyncio.sleep(TRY_S)  # and asked again whether it is too late

    async def _beside(self, key: Key, run: Run) -> bool:
        """Beside the service; False if it cannot begin yet. What its container is left of is removed before an
        operation on the service may be alone: such an operation refuses to move data that a container mounts."""
        async with self._lanes.shared(key[0]):
            await self._tidy(key)
            if run.stage == "starting" and await self._never_started(run):
                self._books.keep(key, rules.unstarted(self._book(key)))
                return True
            if run.stage == "creating" and self._must_wait(key, run):
                return False
            self._conclude(key, run, await self._attempt(key, run))
            await self._tidy(key)
            return True

    def _must_wait(self, key: Key, run: Run) -> bool:
        """The start of the service would wait for it; or its command has changed, and the deployment with the new one
        may serve in time. What is ordered, or tried again, does not wait for a deployment: it has a result at once."""
        if self._declared.idle(key) == NOT_DEPLOYED:
            return run.attempt == 1 and not run.order
        return self._declared.is_between(key)

    async def _tidy(self, key: Key) -> None:
        """Remove the container of the attempt before, also if the agent that made it died."""
        left = self._book(key).left
        if left:
            await self._attempts.discard(left, key[0])
            self._books.keep(key, replace(self._book(key), left=""))

    async def _never_started(self, run: Run) -> bool:
        """An agent died just before it started this container, long ago or before a boot: its secrets may be gone, and
        its time may be over. A container that was made just now is simply started."""
        is_old = run.boot != self._boot or rules.is_late(run, self._time.now_s())
        return is_old and await self._attempts.is_unstarted(run.container)

    # ---- one attempt

    async def _attempt(self, key: Key, run: Run) -> Ended | None:
        """None: the service was stopped or taken away before it could begin."""
        try:
            if run.stage == "creating":
                spec = self._declared.spec(key)
                if spec is None or self._declared.idle(key):
                    return None
                await self._create(key, run, spec)
            await self._patiently(lambda: self._attempts.start(run.container, key[0]), rules.LATE_S)
        except HoldfastError as trouble:
            if isinstance(trouble, TryLater) and self._stage(key) == "starting":
                raise  # whether it was started is asked again
            return Ended("failed", self._time.now_s(), 0.0, message=f"did not start: {trouble.message}")
        self._notes.goes_on(key)
        until_s = self._time.now_s() + run.timeout_s
        try:
            return await self._attempts.follow(
                run.container,
                key[0],
                run.timeout_s,
                run.stage == "creating" or run.boot == self._boot,
                lambda: self._notes.awaited(key, self._lanes.is_awaited(key[0]), until_s),
            )
        finally:
            self._notes.awaited(key, False, 0.0)

    async def _create(self, key: Key, run: Run, spec: ContainerSpec) -> None:
        await self._patiently(
            lambda: self._attempts.create(run.container, spec, self._declared.serving(key)), rules.LATE_S
        )
        self._books.keep(key, replace(self._book(key), run=replace(run, stage="starting", boot=self._boot)))

    async def _patiently(self, act: Callable[[], Awaitable[None]], at_most_s: float) -> None:
        """While the runtime does not answer. A checkpoint is not waited for: what makes it waits for this run."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + at_most_s
        while True:
            try:
                await act()
                return
            except TryLater as trouble:
                if loop.time() > until_s or trouble.code == OWED:
                    raise
            await asyncio.sleep(TRY_S)

    def _conclude(self, key: Key, run: Run, ended: Ended | None) -> None:
        book, declared = self._book(key), self._declared.found.get(key)
        if ended is None:
            why = self._declared.idle(key) or "the service was taken away"
            self._books.keep(key, rules.not_begun(book, why, self._time.now_s()))
            return
        retries = declared.schedule.retries if declared is not None and not self._declared.idle(key) else 0
        if ended.outcome in ("failed", "timed_out") and run.attempt <= retries:
            name = attempt_name(run.container, run.attempt + 1)
            self._books.keep(key, rules.again(book, name, self._time.now_s()))
            return
        result = RunResult(
            due_s=run.due_s,
            started_s=ended.started_s,
            duration_s=ended.duration_s,
            outcome=ended.outcome,
            exit_code=ended.code,
            attempts=run.attempt,
            message=ended.message,
            lines=ended.lines,
            order=run.order,
        )
        self._books.keep(key, rules.ended(book, result))

    def _stage(self, key: Key) -> str:
        run = self._book(key).run
        return run.stage if run is not None else ""

    def _book(self, key: Key) -> Book:
        book = self._books.of(key)
        assert book is not None, "it is dropped only when no run is under way"
        return book
