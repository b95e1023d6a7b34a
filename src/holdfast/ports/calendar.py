"""Cron expressions: which minutes match."""

from collections.abc import Iterator
from typing import Protocol


class Calendar(Protocol):
    def minutes(self, cron: str, timezone: str, after_s: float) -> Iterator[float]:
        """The matching minutes after that time, oldest first, as seconds since 1970; each once. `cron` has five fields.

        Where clocks go forward, a fixed time that does not exist is the first minute after the gap. Where they go back,
        a fixed time is the first of the two. An expression for every hour or minute matches real time."""
        ...
