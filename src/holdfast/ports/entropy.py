"""Randomness, from outside, so that tests and simulations can repeat a run."""

from typing import Protocol


class Entropy(Protocol):
    def token(self, size_bytes: int) -> bytes: ...
