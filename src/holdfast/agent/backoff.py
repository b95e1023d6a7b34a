"""How long to wait before the next request: 1, 2, 4 … 60 s, with random spread."""

from holdfast.ports.random_source import RandomSource

FIRST_S = 1.0
LONGEST_S = 60.0
ASKED_S_MAX = 300.0  # a hub may slow an agent down, not silence it (W3)
_SPREAD = 0.25
_SHARE_OF_WINDOW = (
    2 / 3
)  # 60 of the usual 90 s: every node checks in with a restarted hub before it may call one silent


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
        """What a hub asked for (M-28), and a little more."""
        return min(max(retry_after_s, FIRST_S), ASKED_S_MAX) * (1 + self._spread())

    def _spread(self) -> float:
        return _SPREAD * int.from_bytes(self._random.token(4), "big") / 2**32
