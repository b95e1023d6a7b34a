"""Which fleet this hub serves, and whose trust its callers are checked against."""

from collections.abc import Callable

from holdfast.model.applied import Applied
from holdfast.model.trust import Trust
from holdfast.wire.http_signature import NO_FLEET


class ServedFleet:
    """`founding` is the fleet the ledger is pinned to: nodes name it even if the hub has lost every revision.

    `declared` is the trust of a fleet directory that is served unsigned, and has no revision.
    """

    def __init__(
        self, applied: Callable[[], Applied | None], founding: str = "", declared: Trust | None = None
    ) -> None:
        self._applied = applied
        self._founding = founding
        self._declared = declared

    def name(self) -> str:
        """As requests must name it."""
        applied = self._applied()
        return applied.fleet_id if applied is not None else NO_FLEET

    def is_named(self, fleet: str) -> bool:
        applied = self._applied()
        return fleet in ({applied.fleet_id} if applied is not None else {NO_FLEET, self._founding})

    def trust(self) -> tuple[str, Trust | None]:
        """The fleet id, and the trust in force."""
        applied = self._applied()
        return (applied.fleet_id, applied.trust) if applied is not None else ("", self._declared)
