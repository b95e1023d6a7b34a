"""Notifiers that collect alerts in a list, for tests and simulation."""

from holdfast.errors import HoldfastError
from holdfast.model.alert import Alert
from holdfast.model.fleet import AlertTarget


class MemoryNotifier:
    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.alerts: list[Alert] = []
        self.troubles: list[HoldfastError] = []  # errors to raise instead, one per attempt

    async def send(self, alert: Alert) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.alerts.append(alert)


class MemoryNotifiers:
    """Makes one for each name of a target; `asked` has the targets, with their open addresses."""

    def __init__(self) -> None:
        self.made: dict[str, MemoryNotifier] = {}
        self.asked: list[AlertTarget] = []

    def __call__(self, target: AlertTarget, overlay: str) -> MemoryNotifier:
        self.asked.append(target)
        return self.made.setdefault(target.name, MemoryNotifier(target.name))
