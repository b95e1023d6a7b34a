"""Run a handler where its route says: reader threads, the one writer thread, those for objects, or the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.hub.http import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.hub.http.request import Request
    from holdfast.hub.http.route import Route

T = TypeVar("T")

READERS = 4
OBJECTS = 2  # a large write takes long; readers and commits do not wait for it


class Workers:
    """Readers may run side by side. There is one writer, so that commits queue up instead of colliding."""

    def __init__(self) -> None:
        self._reads = ThreadPoolExecutor(READERS, thread_name_prefix="hub-read")
        self._writes = ThreadPoolExecutor(1, thread_name_prefix="hub-write")
        self._objects = ThreadPoolExecutor(OBJECTS, thread_name_prefix="hub-object")
        self._sweeps = limits.Turnstile(
            1, limits.SWEEPS_WAITING, limits.LARGE_WAIT_S, "the whole ledger is being read already"
        )
        self._held: set[asyncio.Task[Any]] = set()  # requests that wait for the fleet or carry a stream

    async def run(self, route: Route, handler: Any, request: Request) -> Any:
        if route.cost in ("fleet", "stream"):
            async with self._holding():
                return await route.run(handler, request)
        if route.cost == "sweep":
            async with self._sweeps.passing():
                return await self.read(route.run, handler, request)
        if route.cost in ("write", "object"):
            threads = self._writes if route.cost == "write" else self._objects
            return await asyncio.get_running_loop().run_in_executor(threads, route.run, handler, request)
        return await self.read(route.run, handler, request)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reads, function, *arguments)

    def let_go(self) -> None:
        """The hub stops: no request is held any longer. What is durable by now stays so; callers repeat the rest."""
        for task in self._held:
            task.cancel()

    def close(self) -> None:
        """A commit that already writes is waited for: it is either in the ledger or was never begun."""
        self._writes.shutdown(wait=True, cancel_futures=True)
        self._objects.shutdown(wait=True, cancel_futures=True)
        self._reads.shutdown(wait=True, cancel_futures=True)

    @asynccontextmanager
    async def _holding(self) -> AsyncIterator[None]:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._held.add(task)
        try:
            yield
        finally:
            self._held.discard(task)
