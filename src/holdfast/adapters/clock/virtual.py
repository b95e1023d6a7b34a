"""A clock that moves only when advanced. `sleep` advances it at once and costs no real time."""

import threading


class VirtualClock:
    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._passed_s = 0.0
        self._turning = threading.Lock()

    def now_s(self) -> float:
        return self._start_s + self._passed_s

    def monotonic_s(self) -> float:
        return self._passed_s

    def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "time does not run backwards"
        with self._turning:
            self._passed_s += seconds
