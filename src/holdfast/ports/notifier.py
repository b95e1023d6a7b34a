"""Telling a person. May fail; the caller retries or shows it, and never waits for it."""

from typing import Protocol

from holdfast.model.alert import Alert


class Notifier(Protocol):
    @property
    def name(self) -> str: ...

    async def send(self, alert: Alert) -> None:
        """Bounded in time; raises HoldfastError when it was not delivered."""
        ...
