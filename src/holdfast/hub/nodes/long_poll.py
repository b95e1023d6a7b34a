"""Hold a node's request until the hub has news for it (long poll)."""

import asyncio
from typing import Literal

# rung: look again · over: the time is up · replaced: the node sent another request
Woken = Literal["rung", "over", "replaced"]


class LongPoll:
    """At most one request waits: a node has one long poll (T-04). Belongs to one event loop."""

    __slots__ = ("_sleeper",)

    def __init__(self) -> None:
        self._sleeper: asyncio.Future[Woken] | None = None

    async def wait(self, at_most_s: float) -> Woken:
        loop = asyncio.get_running_loop()
        self.replace()
        sleeper: asyncio.Future[Woken] = loop.create_future()
        self._sleeper = sleeper
        timer = loop.call_later(at_most_s, _wake, sleeper, "over")
        try:
            return await sleeper
        finally:
            timer.cancel()
            if self._sleeper is sleeper:
                self._sleeper = None

    def ring(self) -> None:
        if self._sleeper is not None:
            _wake(self._sleeper, "rung")

    def replace(self) -> None:
        if self._sleeper is not None:
            _wake(self._sleeper, "replaced")

    @property
    def is_held(self) -> bool:
        return self._sleeper is not None


def _wake(sleeper: "asyncio.Future[Woken]", why: Woken) -> None:
    if not sleeper.done():
        sleeper.set_result(why)
