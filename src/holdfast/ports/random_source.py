"""A source of randomness, injected so that tests and simulations can repeat a run."""

from typing import Protocol


class RandomSource(Protocol):
    def token(self, size_bytes: int) -> bytes: ...
