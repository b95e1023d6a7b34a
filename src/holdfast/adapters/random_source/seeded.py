"""Repeatable random bytes for tests: the same seed gives the same tokens. Not secret."""

from hashlib import shake_256
from itertools import count


class SeededRandom:
    """The n-th token depends only on the seed and n, so the length of other tokens does not matter."""

    def __init__(self, seed: int | str) -> None:
        self._seed = repr(seed)
        self._numbers = count()

    def token(self, size_bytes: int) -> bytes:
        if size_bytes < 0:
            raise ValueError("negative argument not allowed")  # the message of os.urandom
        return shake_256(f"{self._seed}/{next(self._numbers)}".encode()).digest(size_bytes)
