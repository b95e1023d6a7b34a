"""Notifications to people. Sending may fail; the caller retries or shows it, and never waits for it."""

from collections.abc import Callable
from typing import Protocol

from holdfast.model.alert import Alert
from holdfast.model.fleet import AlertTarget


class Notifier(Protocol):
    @property
    def name(self) -> str: ...

    async def send(self, alert: Alert) -> None:
        """Bounded in time; raises HoldfastError if it was not delivered."""
        ...


MakeNotifier = Callable[[AlertTarget, str], Notifier]  # of a target, and the network of the overlay
