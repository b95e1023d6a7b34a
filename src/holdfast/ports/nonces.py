"""Requests already taken. What was admitted stays refused across restarts, for as long as it could be sent again."""

from concurrent.futures import Future
from typing import Protocol


class Nonces(Protocol):
    def admit(self, key: str, nonce: str, until_s: float) -> Future[bool]:
        """True, durably, for the first caller; False for every later one until `until_s` (wall clock) has passed."""
        ...

    def close(self) -> None: ...
