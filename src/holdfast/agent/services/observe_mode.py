"""Restart and start on a node that only observes: its containers are stopped and started as they are.

Nothing is made, replaced or removed here, whatever is applied meanwhile (C-04).
"""

from collections.abc import Sequence

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.door import Ground
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.data_here import HereWithData
from holdfast.agent.services.rollout.health_checks import LOOK_S, HealthChecks
from holdfast.agent.services.rollout.host_ports import port_taken
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.progress import part_of
from holdfast.agent.traffic.internal_routes import InternalRoutes
from holdfast.errors import Failed
from holdfast.model.container import Container, Guest, Part
from holdfast.ports.runtime import PortTaken


class ObserveMode:
    """`guests` say how containers are prepared and probed: the wanted deployment, and the one that served before."""

    def __init__(
        self,
        *,
        containers: Containers,
        inventory: ContainerInventory,
        health_checks: HealthChecks,
        lanes: Lanes,
        records: Records,
        here: HereWithData,
        routes: InternalRoutes,
    ) -> None:
        self._containers = containers
        self._inventory = inventory
        self._health_checks = health_checks
        self._lanes = lanes
        self._records = records
        self._here = here
        self._routes = routes

    async def restart(self, service: str, guests: Sequence[Guest], ground: Ground) -> None:
        """One after the other; the next is stopped once this one answers, or will not."""
        for one in await self._found(service):
            await self._containers.stop(one, ground)
            await self._start(one, guests, ground)
        await self._route(service)

    async def start(self, service: str, guests: Sequence[Guest], ground: Ground) -> None:
        for one in await self._found(service):
            if not one.running:
                await self._start(one, guests, ground)
        await self._route(service)

    async def _found(self, service: str) -> tuple[Container, ...]:
        await self._inventory.look()
        found = self._inventory.of(service)
        if not found:
            raise Failed(
                f'service.{service} has no container on this node, and a node with reconcile = "observe" creates none',
                remedy='set reconcile = "converge" for this node in fleet.toml and apply',
                code="only_observes",
            )
        return found

    async def _start(self, container: Container, guests: Sequence[Guest], ground: Ground) -> None:
        part = part_of(container, tuple(guests))
        try:
            await self._containers.start(container, part.spec if part is not None else None, ground=ground)
        except PortTaken as taken:
            raise port_taken(container, taken) from taken
        started = await self._inventory.refresh(container.id)
        if started is not None:
            self._health_checks.follow(started, part)
            await self._judged(started, part)

    async def _judged(self, container: Container, part: Part | None) -> None:
        """Nothing is changed while this waits, so another service may have this one's place."""
        async with self._lanes.resting():
            while not await self._health_checks.moved([container.id], LOOK_S):
                found = await self._inventory.refresh(container.id)
                if found is None or self._health_checks.seen(found, part).health != "starting":
                    return

    async def _route(self, service: str) -> None:
        """A stop took the routes away; they lead to the deployment that served, not to one that is only applied."""
        serving = self._records.of(service).serving
        if serving is None or not self._routes.has_proxy:
            return
        here = await self._here.of(service, serving)
        self._routes.certify(serving, here)
        await self._routes.switch(serving, here)
