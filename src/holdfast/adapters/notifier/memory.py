"""A notifier that only remembers, for tests and simulation."""

from holdfast.errors import HoldfastError
from holdfast.model.alert import Alert


class MemoryNotifier:
    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.alerts: list[Alert] = []
        self.troubles: list[HoldfastError] = []  # raised instead, one per attempt, until none is left

    async def send(self, alert: Alert) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.alerts.append(alert)
