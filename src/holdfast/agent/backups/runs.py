"""Carry one backup to its end, beside its service: it waits for a change of the service, and gives way to one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.backups.making import Made, Making, Request
from holdfast.agent.backups.pruning import Pruning
from holdfast.agent.backups.targets.attached import Target
from holdfast.agent.lanes import Lanes
from holdfast.errors import TryLater
from holdfast.ports.archive import Progress
from holdfast.reconcile.backup_due import Book
from holdfast.reconcile.retention import Policy

LOOK_S = 0.5  # whether an operation of the service waits for the backup

T = TypeVar("T")


class GaveWay(TryLater):
    """A change of the service came; what was stored counts for the next attempt."""

    code = "gave_way"


class Skipped(TryLater):
    """C-18: the lane was not free in time."""

    code = "skipped"


class Running(Struct, frozen=True):
    """The backup under way, for the report."""

    service: str
    since_s: float
    progress: Progress = Progress(0, 0, 0)


class Runs:
    """One at a time: a backup takes a whole core and the disk."""

    def __init__(self, *, making: Making, pruning: Pruning, lanes: Lanes, changed: Callable[[], None]) -> None:
        self._making = making
        self._pruning = pruning
        self._lanes = lanes
        self._changed = changed
        self.now: Running | None = None

    async def make(self, request: Request, book: Book, wait_s: float) -> Made:
        """Raises Skipped, GaveWay, or what kept the backup from being made."""
        service = request.wanted.service
        self.now = Running(service, request.begun_s)
        self._changed()
        try:
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(wait_s):
                        await held.enter_async_context(self._lanes.shared(service))
                except TimeoutError:
                    raise Skipped(
                        f"a change of {service} was under way for {wait_s:.0f} s", remedy=f"holdfast backup {service}"
                    ) from None
                return await self._beside(service, lambda: self._making.make(request, book, self._told))
        finally:
            self.now = None
            self._changed()

    async def prune(self, at: Target, service: str, policy: Policy) -> int:
        return await self._pruning.prune(at, service, policy)

    def _told(self, progress: Progress) -> None:
        if self.now is not None:
            self.now = replace(self.now, progress=progress)
            self._changed()

    async def _beside(self, service: str, work: Callable[[], Awaitable[T]]) -> T:
        """A lane that is cancelled stays held (agent/lanes.py), so only the work inside is."""
        task = asyncio.ensure_future(work())
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=LOOK_S)
                if not task.done() and self._lanes.is_awaited(service):
                    await ended(task)
                    raise GaveWay(f"a change of {service} is under way", remedy="wait: the backup continues afterwards")
            return task.result()
        except asyncio.CancelledError:
            await ended(task)
            raise


async def ended(task: "asyncio.Future[T]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # it is seen: no warning about it
