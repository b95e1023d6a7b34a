"""The time this node believes: the wall clock, held above a floor that survives restarts (W16)."""

from contextlib import suppress

from holdfast.errors import HoldfastError
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal
from holdfast.trust import time_floor

FACT = "time-floor"
KEEP_EVERY_S = 60.0


class NodeTime:
    def __init__(self, clock: Clock, journal: Journal) -> None:
        self._clock = clock
        self._journal = journal
        self._state = time_floor.restored(journal.fact(FACT))
        self._kept_floor_s = self._state.floor_s
        self.alarm: str | None = None

    @property
    def is_set(self) -> bool:
        """Whether this clock and a hub's agreed at least once."""
        return self._state.floor_s > 0.0

    @property
    def floor_s(self) -> float:
        """No later than now: neither a hub nor the wall clock moves it alone. 0.0: never set."""
        return self._state.floor_s

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def now_s(self) -> float:
        return time_floor.now_s(self._state, self._clock.now_s())

    def heard(self, hub_time_s: float | None) -> None:
        """With every answer of the hub: the floor rises where the two clocks agree, else `alarm` says why."""
        self._state, self.alarm = time_floor.advance(
            self._state, self._clock.now_s(), self._clock.monotonic_s(), hub_time_s
        )
        if self._state.floor_s - self._kept_floor_s >= KEEP_EVERY_S:
            with suppress(HoldfastError):  # no reason to fall silent; before an order it must work
                self.keep()

    def keep(self) -> None:
        """On the disk, before an order is judged by it."""
        if int(self._state.floor_s) > int(self._kept_floor_s):
            self._journal.set_aside(FACT, time_floor.stored(self._state))
            self._kept_floor_s = self._state.floor_s
