"""A second store of the newest head, so that an older copy of the ledger is detected."""

from typing import Protocol

from holdfast.model.revision import Head


class HighWater(Protocol):
    def read(self) -> Head | None: ...

    def raise_to(self, head: Head) -> None:
        """Never lowers. Losing the last raise in a power cut weakens the check by one revision and breaks nothing."""
        ...
