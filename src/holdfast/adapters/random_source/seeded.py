"""Randomness that repeats: the same seed, the same tokens in the same order. For tests; keeps no secret."""

from hashlib import shake_256
from itertools import count


class SeededRandom:
    """The n-th token depends on the seed and on n alone, so a longer token elsewhere shifts nothing."""

    def __init__(self, seed: int | str) -> None:
        self._seed = repr(seed)
        self._numbers = count()

    def token(self, size_bytes: int) -> bytes:
        if size_bytes < 0:
            raise ValueError("negative argument not allowed")  # as the system's source says it
        return shake_256(f"{self._seed}/{next(self._numbers)}".encode()).digest(size_bytes)
