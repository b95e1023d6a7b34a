"""The times of backups and drills: an interval, or the minutes of a cron expression. Pure.

Both have fixed times with a phase of the service's own, so that services do not begin together and no crash or delay
shifts the next one.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

from msgspec import Struct

PHASE_SHARE, PHASE_S_MAX = 0.1, 1800.0
CRON_PHASE_S_MAX = 300.0  # an expression names minutes: a backup begins soon after them
RUNS_MAX, RUNS_S = 10_000, 400 * 86_400.0  # so far is looked for the longest pause of an expression

Minutes = Callable[[float], Iterator[float]]  # the matching minutes after a time, oldest first


class Every(Struct, frozen=True):
    """Fixed slots of an interval."""

    longest_s: float

    def phase_s(self, service: str, node: str) -> float:
        return share(service, node) * min(self.longest_s * PHASE_SHARE, PHASE_S_MAX)

    def due_s(self, last_s: float, phase_s: float) -> float:
        return (int((last_s - phase_s) // self.longest_s) + 1) * self.longest_s + phase_s


class At(Struct, frozen=True):
    """The minutes of a cron expression; `longest_s` is the longest pause between two of them."""

    minutes: Minutes
    longest_s: float

    def phase_s(self, service: str, node: str) -> float:
        return share(service, node) * min(self.longest_s * PHASE_SHARE, CRON_PHASE_S_MAX)

    def due_s(self, last_s: float, phase_s: float) -> float:
        return next(self.minutes(last_s - phase_s)) + phase_s


Times = Every | At


def share(service: str, node: str) -> float:
    """The same for all time, from 0 to 1, different for each service."""
    return int.from_bytes(sha256(f"{node}/{service}".encode()).digest()[:4], "big") / 2**32


def longest_pause_s(minutes: Iterable[float]) -> float:
    """Between the next runs: those of 400 days, and at least the first two; 0 if there are not two."""
    longest_s, first_s, before_s = 0.0, None, 0.0
    for count, at_s in enumerate(minutes):
        if first_s is None:
            first_s = at_s
        else:
            longest_s = max(longest_s, at_s - before_s)
        before_s = at_s
        if longest_s and (count >= RUNS_MAX or at_s - first_s > RUNS_S):
            break
    return longest_s
