"""Let one part of the agent wake another without knowing it. It carries no data."""

from collections.abc import Callable


class Wake:
    """Called when something happened. `count` grows with every call; listeners are called in order."""

    def __init__(self) -> None:
        self.count = 0
        self._listeners: list[Callable[[], None]] = []

    def connect(self, *listeners: Callable[[], None]) -> None:
        self._listeners += listeners

    def __call__(self) -> None:
        self.count += 1
        for listener in self._listeners:
            listener()
