"""The nonces of accepted requests. A request is refused a second time, across restarts, until it expires."""

from concurrent.futures import Future
from typing import Protocol


class Nonces(Protocol):
    def admit(self, key: str, nonce: str, until_s: float) -> Future[bool]:
        """True, durably, for the first caller; False for every later one until `until_s` (wall clock) has passed."""
        ...

    def close(self) -> None: ...
