"""The hub's times: wall clock, time of its event loop, start of watching, end of the warm-up (M-75)."""

import asyncio
from collections.abc import Callable

from holdfast.ports.clock import Clock


class HubTime:
    """Any thread may read it. The loop's time is 0.0 until `begin` was called on the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began_s = 0.0
        self._is_warm = False

    def begin(self) -> bool:
        """Remember the running loop; True at the first call."""
        if self._loop is not None:
            return False
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        return True

    def end_warm_up(self) -> None:
        self._is_warm = True

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call it on the loop, from any thread. Does nothing while there is no loop."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def now_s(self) -> float:
        return self._clock.now_s()

    def loop_s(self) -> float:
        return self._loop.time() if self._loop is not None else 0.0

    @property
    def began_s(self) -> float:
        return self._began_s

    @property
    def is_warm(self) -> bool:
        return self._is_warm
