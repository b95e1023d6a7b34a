"""How far a copy is, told from its thread to the report; and the way to end it."""

import asyncio
from collections.abc import Callable

from holdfast.model.size import size

EVERY_BYTES = 256 << 20


class Over(Exception):
    """The rollout that asked for the copy has ended."""


class Telling:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._moved_bytes = self._told_bytes = 0
        self._is_over = False

    def moved(self, count_bytes: int) -> None:
        """In the thread of the copy."""
        if self._is_over:
            raise Over
        self._moved_bytes += count_bytes
        if self._moved_bytes - self._told_bytes >= EVERY_BYTES:
            self._told_bytes = self._moved_bytes
            self._loop.call_soon_threadsafe(self._say, f"{size(self._moved_bytes)} copied; the service runs")

    def end(self) -> None:
        """The copy ends at its next block, if it has not ended yet."""
        self._is_over = True
