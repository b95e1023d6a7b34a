"""The container networks of services, as far as this process knows them."""

from holdfast.agent.services.door import Door
from holdfast.model.container import LABEL_FLEET, LABEL_SERVICE
from holdfast.ports.runtime import Runtime


class Networks:
    def __init__(self, runtime: Runtime, door: Door, fleet: str) -> None:
        self._runtime = runtime
        self._door = door
        self._fleet = fleet
        self.known: set[str] = set()

    async def make(self, name: str, service: str) -> None:
        await self._runtime.ensure_network(name, {LABEL_FLEET: self._fleet, LABEL_SERVICE: service})
        self.known.add(name)

    async def remove(self, name: str, service: str) -> None:
        await self._door.remove_network(name, service)
        self.known.discard(name)
