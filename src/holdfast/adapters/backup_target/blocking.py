"""Blocking calls in threads of their own, each with a time limit: a disk that does not answer stops no event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.errors import TryLater

T = TypeVar("T")


class Silent(Exception):
    """No answer within the limit, or all places are taken by calls that do not end."""


class Blocking:
    """At most `places` calls at once. The threads do not keep the process alive: one that waits for a dead disk cannot
    be ended, and its place stays taken until the kernel lets it go."""

    def __init__(self, places: int, name: str) -> None:
        self._places = asyncio.Semaphore(places)
        self._name = name

    async def run(self, limit_s: float, function: Callable[..., T], *arguments: Any) -> T:
        try:
            async with asyncio.timeout(limit_s):
                await self._places.acquire()
                return await self._started(function, *arguments)
        except TimeoutError:
            raise Silent from None

    async def _started(self, function: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def ended(result: T | None, trouble: BaseException | None) -> None:
            self._places.release()
            if answer.done():  # its caller did not wait
                return
            if trouble is not None:
                answer.set_exception(trouble)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            result: T | None = None
            trouble: BaseException | None = None
            try:
                result = function(*arguments)
            except StopIteration as raised:
                trouble = RuntimeError(str(raised))  # a future takes any other exception
            except BaseException as raised:
                trouble = raised
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(ended, result, trouble)

        try:
            threading.Thread(target=work, name=self._name, daemon=True).start()
        except RuntimeError:
            self._places.release()
            raise TryLater(
                "this process cannot start another thread", remedy="raise its limit of tasks (TasksMax)"
            ) from None
        return await answer
