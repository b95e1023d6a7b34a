"""How long to wait before the next try: 1, 2, 4 … 60 s, spread at random so that nodes do not come together."""

from holdfast.ports.random_source import RandomSource

FIRST_S = 1.0
LONGEST_S = 60.0
ASKED_S_MAX = 60.0  # with the spread: a hub may slow an agent down, not silence it (W3, X16)
_SPREAD = 0.25
_SHARE_OF_WINDOW = 2 / 3  # 60 of the ordinary 90 s: a hub that is back hears every node before it may miss one


class Backoff:
    def __init__(self, random: RandomSource) -> None:
        self._random = random
        self._next_s = FIRST_S
        self._longest_s = LONGEST_S

    def fit(self, window_s: float) -> None:
        """Nodes that are missed sooner come back sooner."""
        self._longest_s = min(max(window_s * _SHARE_OF_WINDOW, FIRST_S), LONGEST_S)

    def reset(self) -> None:
        self._next_s = FIRST_S

    def grow(self) -> float:
        base_s = self._next_s
        self._next_s = min(base_s * 2, self._longest_s)
        return min(base_s * (1 + self._spread()), self._longest_s)

    def asked(self, retry_after_s: float) -> float:
        """What a hub asked for (M-28), and a little more; if that is too long, spread below the limit."""
        if retry_after_s >= ASKED_S_MAX:
            return ASKED_S_MAX / (1 + self._spread())
        return min(max(retry_after_s, FIRST_S) * (1 + self._spread()), ASKED_S_MAX)

    def near(self, seconds: float) -> float:
        return seconds * (1 + self._spread())

    def part(self, seconds: float) -> float:
        """Anything between nothing and all of it."""
        return seconds * self._spread() / _SPREAD

    def _spread(self) -> float:
        return _SPREAD * int.from_bytes(self._random.token(4), "big") / 2**32
