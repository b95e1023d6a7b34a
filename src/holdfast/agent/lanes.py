"""Lanes: one operation at a time for one service, several services at a time. Nothing that runs is cut off.

Beside the operation of a lane, others may hold the lane shared: they work beside each other, and an operation that
stops something asks to be alone first.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from holdfast.agent.wake import Wake
from holdfast.errors import Limited

PARALLEL = 4
SEATS = 4  # for each place: so many may be begun, of which all but the places only wait
WAITING_MAX = 64  # in one lane


class Lanes:
    def __init__(self, parallel: int = PARALLEL) -> None:
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._parallel = parallel
        self._places = asyncio.Semaphore(parallel)
        self._seats = asyncio.Semaphore(parallel * SEATS)
        self._held: dict[asyncio.Task[Any], asyncio.Semaphore] = {}
        self.running: set[asyncio.Task[None]] = set()
        self._overdue: set[asyncio.Task[None]] = set()  # the agent does not wait for these any more
        self._sharing = Sharing()
        self.operations: set[str] = set()  # ids of the journaled operations under way
        self.is_working = False  # a pass of the services is working off its agenda
        self.worked = Wake()  # called when `is_working` changes
        self.freed = Wake()  # called when nothing runs or waits in a lane any more

    def resize(self, parallel: int) -> None:
        """For work that begins from now on."""
        if parallel != self._parallel:
            self._parallel = parallel
            self._places = asyncio.Semaphore(parallel)
            self._seats = asyncio.Semaphore(parallel * SEATS)

    @contextmanager
    def working(self) -> Iterator[None]:
        self.is_working = True
        self.worked()
        try:
            yield
        finally:
            self.is_working = False
            self.worked()

    def is_busy(self, lane: str) -> bool:
        return lane in self._waiting

    def check_room(self, lane: str) -> None:
        if self._waiting.get(lane, 0) >= WAITING_MAX:
            raise Limited(
                f"{WAITING_MAX} operations already wait for {lane}",
                remedy="wait until some are done; `holdfast agent journal` on the node shows them",
            )

    def put(self, lane: str, work: Callable[[], Awaitable[None]]) -> None:
        self._waiting[lane] = self._waiting.get(lane, 0) + 1
        task = asyncio.ensure_future(self._run(lane, work))
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def _run(self, lane: str, work: Callable[[], Awaitable[None]]) -> None:
        turn = self._turns.setdefault(lane, asyncio.Lock())
        try:
            async with turn, self._seats, self._place():
                try:
                    await work()
                finally:
                    self._sharing.open(lane)
        finally:
            self._waiting[lane] -= 1
            if self._waiting[lane] == 0:  # no task waits for this lock any more
                del self._waiting[lane], self._turns[lane]
                self.freed()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        places, task = self._places, asyncio.current_task()
        assert task is not None
        async with places:
            self._held[task] = places
            try:
                yield
            finally:
                del self._held[task]

    @asynccontextmanager
    async def resting(self) -> AsyncIterator[None]:
        """For work that only waits now: another lane may have its place meanwhile, a few of them at a time."""
        task = asyncio.current_task()
        places = self._held.get(task) if task is not None else None
        if places is None:
            yield
            return
        places.release()
        try:
            yield
        finally:
            await places.acquire()

    @asynccontextmanager
    async def shared(self, lane: str) -> AsyncIterator[None]:
        """For work beside the operations of this lane, as long as none of them is alone."""
        async with self._sharing.held(lane):
            yield

    async def alone(self, lane: str) -> None:
        """For the operation that runs in this lane, until it ends: wait for all that hold it shared, and let no other
        begin. Does nothing outside of an operation: it could not end."""
        if asyncio.current_task() in self._held:
            async with self.resting():
                await self._sharing.close(lane)

    def is_awaited(self, lane: str) -> bool:
        """An operation of this lane is alone, or waits for those that hold it shared."""
        return lane in self._sharing.closed

    async def quiet(self, at_most_s: float) -> bool:
        """Wait for everything under way that was not given up; False if something still is."""
        if awaited := self.running - self._overdue:
            await asyncio.wait(awaited, timeout=at_most_s)
        return not self.running

    def give_up(self) -> None:
        """What runs now goes on, and the next piece of work does not wait for it (C-35)."""
        self._overdue = set(self.running)


class Sharing:
    """How many hold each lane shared, and which lanes are closed to them."""

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self.closed: set[str] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def held(self, lane: str) -> AsyncIterator[None]:
        await self._until(lambda: lane not in self.closed)
        self._holders[lane] = self._holders.get(lane, 0) + 1
        try:
            yield
        except asyncio.CancelledError:
            raise  # the agent ends, and what it held the lane for goes on: no operation may take it for ended
        except BaseException:
            self._release(lane)
            raise
        self._release(lane)

    def _release(self, lane: str) -> None:
        self._holders[lane] -= 1
        if self._holders[lane] == 0:
            del self._holders[lane]
        self._tell()

    async def close(self, lane: str) -> None:
        self.closed.add(lane)
        await self._until(lambda: lane not in self._holders)

    def open(self, lane: str) -> None:
        self.closed.discard(lane)
        self._tell()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(told)
            try:
                await told
            finally:
                self._waiting.discard(told)

    def _tell(self) -> None:
        for told in self._waiting:
            if not told.done():
                told.set_result(None)
