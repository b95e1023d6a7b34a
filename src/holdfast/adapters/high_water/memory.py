"""The newest head in memory; it lasts as long as the process."""

from holdfast.model.revision import Head


class MemoryHighWater:
    def __init__(self, head: Head | None = None) -> None:
        self._head = head

    def read(self) -> Head | None:
        return self._head

    def raise_to(self, head: Head) -> None:
        if head.number > (self._head.number if self._head else 0):
            self._head = head
