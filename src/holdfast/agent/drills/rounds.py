"""One drill of one service, with all that belongs to it: its note, what it made, and a change that comes meanwhile."""

import asyncio
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.drills.books import Books
from holdfast.agent.drills.drilling import Drilling, Request
from holdfast.agent.drills.notes import Notes
from holdfast.agent.drills.remains import Remains
from holdfast.agent.lanes import Lanes
from holdfast.agent.time import NodeTime
from holdfast.errors import Failed, HoldfastError
from holdfast.model.drill import Drill, DrillResult
from holdfast.ports.archive import Progress
from holdfast.reconcile import drill as rules
from holdfast.reconcile.drill import Book

LOOK_S = 0.5  # whether a change of the service is under way
WITHIN_S = 6 * 3600.0  # for all of it, however large the backup is
TOKENS = 1 << 32


class Running(Struct, frozen=True):
    """The drill under way, for the report."""

    service: str
    since_s: float
    order: str = ""  # that asked for it
    step: str = ""
    progress: Progress = Progress(0, 0, 0)


class Rounds:
    """One at a time. A drill does not touch the service, so no change of it waits for one: it ends the drill."""

    def __init__(
        self,
        *,
        drilling: Drilling,
        remains: Remains,
        books: Books,
        lanes: Lanes,
        time: NodeTime,
        notes: Notes,
        changed: Callable[[], None],
        node: str,
    ) -> None:
        self._drilling = drilling
        self._remains = remains
        self._books = books
        self._lanes = lanes
        self._time = time
        self._notes = notes
        self._changed = changed
        self._node = node
        self.now: Running | None = None
        self.is_tidy = True

    def newest(self, service: str) -> str:
        return self._drilling.newest(service)

    def may(self, service: str) -> bool:
        return not self._lanes.is_busy(service)

    def is_running(self, service: str, order: str) -> bool:
        return self.now is not None and (self.now.service, self.now.order) == (service, order)

    async def tidy(self) -> bool:
        """Whether nothing is left of a drill, of this agent or of one before it."""
        staged = None
        try:
            staged = self._remains.staged()
            await self._remains.clear()
            if staged is not None:
                self._notes.left(staged.service, None)
            self._notes.unknown(await self._remains.unknown(), self._node)
        except (HoldfastError, OSError) as trouble:
            if staged is not None and isinstance(trouble, HoldfastError):
                self._notes.left(staged.service, trouble)
            self.is_tidy = False
            return False
        self.is_tidy = True
        return True

    async def drill(self, service: str, declared: Drill | None) -> None:
        book, now_s = self._books.of(service), self._time.now_s()
        assert book is not None, "it is due"
        request = Request(service, declared, book, f"{int(now_s * 1000) % TOKENS:08x}")
        self.now = Running(service, now_s, book.asked_by)
        self._changed()
        try:
            self._books.keep(service, rules.begun(book, now_s))
            result = await self._beside(request)
            await self.tidy()
            since = self._books.of(service) or Book(now_s)
            self._books.keep(service, rules.ended(since, result) if result is not None else rules.gave_way(since))
            if result is not None:
                self._notes.ended(service, result)
        except HoldfastError:
            return  # the disk of the journal refuses: it is still due
        finally:
            self.now = None
            self._changed()

    async def _beside(self, request: Request) -> DrillResult | None:
        """None: a change of the service came, and the drill gave way to it."""
        task = asyncio.ensure_future(self._drilling.drill(request, self._told))
        until_s = self._time.monotonic_s() + WITHIN_S
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=LOOK_S)
                if task.done():
                    break
                if self._lanes.is_busy(request.service):
                    await _ended(task)
                    return None
                if self._time.monotonic_s() > until_s:
                    await _ended(task)
                    return self._too_late(request)
            return task.result()
        except asyncio.CancelledError:
            await _ended(task)
            raise

    def _too_late(self, request: Request) -> DrillResult:
        late = Failed("it was not over within 6 hours", remedy=f"holdfast drill {request.service}", code="too_late")
        book, now_s = request.book, self._time.now_s()
        return DrillResult(
            "inconclusive",
            now_s - WITHIN_S,
            WITHIN_S,
            book.cause,
            book.asked_for or self.newest(request.service),
            reason=late.message,
            remedy=late.remedy,
            order=book.asked_by,
        )

    def _told(self, step: str, progress: Progress | None) -> None:
        if self.now is not None:
            self.now = replace(self.now, step=step, progress=progress or Progress(0, 0, 0))
            self._changed()


async def _ended(task: "asyncio.Future[DrillResult]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # it is seen: no warning about it
