"""A notifier that collects alerts in a list, for tests and simulation."""

from holdfast.errors import HoldfastError
from holdfast.model.alert import Alert


class MemoryNotifier:
    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.alerts: list[Alert] = []
        self.troubles: list[HoldfastError] = []  # errors to raise instead, one per attempt

    async def send(self, alert: Alert) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.alerts.append(alert)
