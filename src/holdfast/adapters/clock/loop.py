"""The clock of an event loop: real in a daemon's loop, virtual in a simulated one. Nobody may block on it."""

import asyncio


class LoopClock:
    """`start_s` is the wall clock when the loop's own time was `zero_s`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_s: float) -> None:
        self._loop = loop
        self._start_s = start_s - loop.time()
        self.skew_s = 0.0  # how wrong this machine's wall clock is

    def now_s(self) -> float:
        return self._start_s + self._loop.time() + self.skew_s

    def monotonic_s(self) -> float:
        return self._loop.time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("whoever lives in an event loop waits with asyncio.sleep")
