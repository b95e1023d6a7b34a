"""Whether the services of this node are at rest, and the bell that wakes their keeper."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.pacing import Pacing
from holdfast.errors import HoldfastError


class Rest:
    def __init__(self, pacing: Pacing, lanes: Lanes) -> None:
        self._pacing = pacing
        self._lanes = lanes
        self._bell = asyncio.Event()
        self._calm = asyncio.Event()
        self._calm.set()
        self._is_kept = False

    # ---- asked by others

    def wake(self) -> None:
        """Something is to be done, or to be looked at."""
        self._calm.clear()
        self._bell.set()

    def felt(self) -> None:
        """The health of a container changed: routes may have to follow. A rollout that waits for it sees it itself."""
        if not self._lanes.is_working:
            self.wake()

    def is_at_rest(self, service: str) -> bool:
        """Nothing is under way or due for this service."""
        is_calm = self._pacing.has_looked and not self._bell.is_set()
        return is_calm and service not in self._pacing.unrest and not self._lanes.is_busy(service)

    @property
    def stuck(self) -> Mapping[str, HoldfastError]:
        """Why services wait, where waiting alone will not help."""
        return self._pacing.stuck

    async def settled(self) -> None:
        if self._is_kept:
            await self._calm.wait()

    # ---- used by the keeper

    def begin(self) -> None:
        self._is_kept = True

    def begin_again(self) -> None:
        """Something new is wanted: it is tried at once."""
        self._pacing.begin_again()
        self.wake()

    def end_pass(self) -> None:
        if not self._bell.is_set():
            self._calm.set()

    async def until(self, stirred: Callable[[], Awaitable[object]]) -> None:
        """Until the bell rings or `stirred` returns."""
        if not self._bell.is_set():
            waiting: set[asyncio.Future[Any]] = {
                asyncio.ensure_future(self._bell.wait()),
                asyncio.ensure_future(stirred()),
            }
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
        self._bell.clear()
