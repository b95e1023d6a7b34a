"""The clock of an event loop: real time in a daemon, virtual time in a simulation. It cannot block."""

import asyncio


class LoopClock:
    """`start_s` is the wall-clock time at construction; later times follow the loop's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_s: float) -> None:
        self._loop = loop
        self._start_s = start_s - loop.time()
        self.skew_s = 0.0  # simulated error of this machine's wall clock

    def now_s(self) -> float:
        return self._start_s + self._loop.time() + self.skew_s

    def monotonic_s(self) -> float:
        return self._loop.time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("code in an event loop must wait with asyncio.sleep")
