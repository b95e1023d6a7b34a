"""The clock. All waiting and expiry uses it, so that tests control time."""

from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float:
        """Wall clock in unix seconds: comparable between machines and across restarts, but it may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never run backwards, comparable only within this process."""
        ...

    def sleep(self, seconds: float) -> None: ...
