"""An event loop whose time jumps to the next thing that happens: a day takes seconds, and every run is the same."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Nothing is ever waited for: when nothing is ready, the time that would have passed has passed."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits for something that no timer will bring: a deadlock")
        if timeout > 0:
            self.loop.passed_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """No sockets, no threads: what is given to an executor is done at once, so that the order of events is fixed."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.passed_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as trouble:
            future.set_exception(trouble)
        return future


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run to the end in virtual time; whatever is still waiting then is cancelled."""
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main(loop))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
