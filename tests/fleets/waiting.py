"""Wait for a condition, and measure time limits, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 120.0  # far more than an idle machine needs: a wait ends as soon as its condition holds
PAUSE_S_MIN, PAUSE_S_MAX = 0.02, 0.25
STRETCH_MAX = 4
PRESSURE = Path("/proc/pressure/cpu")


def wait_until(true: Callable[[], object], why: str | Callable[[], object], limit_s: float | None = None) -> float:
    """Seconds it took. `why` names the condition; a function is called for its text when the wait fails.

    `limit_s` is a time that the product promises on a machine without other work: see Stopwatch.
    """
    watch = Stopwatch()
    while not _looked(true):
        in_time = watch.wall_s < PATIENCE_S if limit_s is None else watch.within(limit_s)
        assert in_time, f"not within {limit_s or PATIENCE_S:.0f} s ({watch}): {why() if callable(why) else why}"
    if isinstance(why, str):
        print(f"{watch} until {why}")  # pytest shows it with -s, and for a test that failed
    return watch.wall_s


def _looked(true: Callable[[], object]) -> bool:
    """Whether it holds; else after a pause as long as the look took, so that looking leaves half a core to others."""
    began_s = time.monotonic()
    holds = bool(true())
    if not holds:
        time.sleep(min(PAUSE_S_MAX, max(PAUSE_S_MIN, time.monotonic() - began_s)))
    return holds


class Stopwatch:
    """Measures a time limit that the product promises on a machine without other work.

    The time in which some process waited for a processor does not count, so that load stretches a limit; it does so
    fourfold at most. On an idle machine the limit is exact.
    """

    def __init__(self) -> None:
        self._began_s, self._began_busy_s = time.monotonic(), _busy_s()

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def unhurried_s(self) -> float:
        return self.wall_s - (_busy_s() - self._began_busy_s)

    @property
    def stretch(self) -> float:
        """How many times longer this took than on an idle machine, as far as that counts."""
        return min(STRETCH_MAX, self.wall_s / max(self.unhurried_s, self.wall_s / STRETCH_MAX))

    def within(self, limit_s: float) -> bool:
        return self.unhurried_s < limit_s and self.wall_s < STRETCH_MAX * limit_s

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} s, {self.unhurried_s:.1f} s of it without a queue for the processors"


def _busy_s() -> float:
    """Seconds since boot in which a process waited for a processor; 0 where the kernel does not count them."""
    try:
        some = PRESSURE.read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(some.rpartition("total=")[2]) / 1_000_000
