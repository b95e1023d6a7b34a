"""Nonces in memory, for tests and simulation; lost when the process ends."""

from concurrent.futures import Future

from holdfast.ports.clock import Clock

SWEEP_EVERY = 1000


class MemoryNonces:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[tuple[str, str], float] = {}
        self._admitted = 0

    def admit(self, key: str, nonce: str, until_s: float) -> Future[bool]:
        now_s = self._clock.now_s()
        self._admitted += 1
        if self._admitted % SWEEP_EVERY == 0:
            self._until_s = {name: until for name, until in self._until_s.items() if until >= now_s}
        fresh = self._until_s.get((key, nonce), float("-inf")) < now_s
        if fresh:
            self._until_s[key, nonce] = until_s
        answer: Future[bool] = Future()
        answer.set_result(fresh)
        return answer

    def close(self) -> None:
        """Nothing to close."""
