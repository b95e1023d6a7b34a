"""The no-progress guard: stops work that repeats the same steps without any change. Pure."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from holdfast.model import canonical

SAME_MAX = 3


class Guard(Struct, frozen=True):
    fingerprint: str = ""
    times: int = 0

    def after(self, fingerprint: str) -> "Guard":
        return Guard(fingerprint, self.times + 1 if fingerprint == self.fingerprint else 1)

    def reason(self, at_most: int = SAME_MAX) -> str | None:
        """Why to stop, as text; None while it may go on."""
        if self.times <= at_most:
            return None
        return f"the same steps ran {self.times - 1} times and changed nothing"


def fingerprint(observation: Any, actions: Iterable[str]) -> str:
    """`observation` has nothing that changes without a step: no times, no counters."""
    return canonical.digest(canonical.encode([observation, list(actions)]))
