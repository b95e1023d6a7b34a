"""Services that are held while an order works on their data."""

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from holdfast.agent.services.desired import Desired
from holdfast.agent.services.records import Record, Records


class Holds:
    """`wanted` answers what this node must run; `wake` lets the keeper of the services look again."""

    def __init__(self, wanted: Callable[[], Desired | None], records: Records, wake: Callable[[], None]) -> None:
        self._wanted = wanted
        self._records = records
        self._wake = wake

    def record(self, service: str) -> Record:
        return self._records.of(service)

    def doing(self, service: str) -> Literal["held", "runs", "absent"]:
        """What the service does on this node, as far as orders and revisions say."""
        wanted = self._wanted()
        if wanted is None or service not in wanted.guests:
            return "absent"
        return "held" if self._records.of(service).held else "runs"

    def lift(self, service: str) -> None:
        """Undo the hold of an order that did not get further."""
        self._records.keep(service, replace(self._records.of(service), held=False))
        self._wake()
