"""Work on several needs and providers at a time, one piece for each."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from holdfast.agent.keeping import Keeping

AT_ONCE = 8


class Tasks:
    """`ended` is called after each piece."""

    def __init__(self, keeping: Keeping, ended: Callable[[], None]) -> None:
        self._keeping = keeping
        self._ended = ended
        self._busy: set[Hashable] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(AT_ONCE)

    def begin(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Does nothing while work of this name is under way."""
        if name in self._busy:
            return
        self._busy.add(name)
        task = asyncio.ensure_future(self._run(name, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with self._places:
                await work()
        except Exception as mistake:
            self._keeping.mistake(mistake)
        finally:
            self._busy.discard(name)
            self._ended()

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()
