"""Tell a service that the values of a need changed: restart it, or do nothing, as the need declares."""

from collections.abc import Awaitable, Callable

from holdfast.agent.lane_turn import in_lane
from holdfast.agent.lanes import Lanes
from holdfast.agent.needs.declared import Declared
from holdfast.agent.services.door import Ground
from holdfast.agent.services.records import Records
from holdfast.gate.acts import Act

Restart = Callable[[str, Ground], Awaitable[str]]


class Changing:
    """`restart` is the one of orders; here its ground is the accepted revision, which declares the need."""

    def __init__(self, restart: Restart, records: Records, lanes: Lanes) -> None:
        self._restart = restart
        self._records = records
        self._lanes = lanes

    def must_tell(self, declared: Declared) -> bool:
        """A container that did not start yet finds the values when it does."""
        record = self._records.of(declared.service)
        return declared.need.on_change == "restart" and record.serving is not None and not record.held

    async def tell(self, declared: Declared) -> None:
        async def again() -> None:
            await self._restart(declared.service, Ground(Act.STOP))

        await in_lane(self._lanes, declared.service, again)
