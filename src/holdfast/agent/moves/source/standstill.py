"""Stop a service so that its data is at rest, and let it go on."""

from collections.abc import Awaitable, Callable, Mapping

from holdfast.agent.lane_turn import in_lane
from holdfast.agent.lanes import Lanes
from holdfast.agent.services.holds import Holds
from holdfast.agent.services.orders import ServiceOrders
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.containers import Containers
from holdfast.errors import TryLater
from holdfast.model.move import Decided

Ran = Callable[[str], Mapping[str, Decided]]  # service → schedule → up to when its minutes were decided


class Standstill:
    """`ran` answers how far the schedules of a service are. `containers` shows what runs."""

    def __init__(
        self,
        *,
        services: ServiceOrders,
        holds: Holds,
        records: Records,
        containers: Containers,
        lanes: Lanes,
        ran: Ran,
    ) -> None:
        self._services = services
        self._holds = holds
        self._records = records
        self._containers = containers
        self._lanes = lanes
        self.ran = ran

    async def alone(self, service: str, work: Callable[[], Awaitable[None]]) -> None:
        """In its lane, when nothing else of the service is under way."""

        async def begun() -> None:
            await self._lanes.alone(service)
            await work()

        await in_lane(self._lanes, service, begun)

    def is_held(self, service: str) -> bool:
        return self._records.of(service).held

    def serving(self, service: str) -> tuple[str, int]:
        """The deployment that writes the data, and its revision."""
        record = self._records.of(service)
        return record.serving.deployment if record.serving is not None else "", record.serving_revision

    async def stop(self, service: str) -> None:
        """What the revision in force does not let this node run is at rest already: its data came, and it was never
        told how to run it."""
        if self._services.may_run(service):
            await self._services.stop(service)
        await self.check(service)

    async def check(self, service: str) -> None:
        await self._containers.look()
        if any(one.running for one in self._containers.of(service)):
            raise TryLater(
                f"service.{service} still runs here, so it is not handed over",
                remedy="wait: it is stopped again",
                code="still_runs",
            )

    def lift(self, service: str) -> None:
        if self._records.of(service).held:
            self._holds.lift(service)
