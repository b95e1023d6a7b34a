"""Notifications to people. Sending may fail; the caller retries or shows it, and never waits for it."""

from typing import Protocol

from holdfast.model.alert import Alert


class Notifier(Protocol):
    @property
    def name(self) -> str: ...

    async def send(self, alert: Alert) -> None:
        """Bounded in time; raises HoldfastError if it was not delivered."""
        ...
