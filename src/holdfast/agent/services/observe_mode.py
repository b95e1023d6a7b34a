"""The containers of one service stopped and started as they are: all that an order does on a node that only observes.

Nothing is made, replaced or removed here, whatever is applied meanwhile (C-04).
"""

from collections.abc import Sequence

from holdfast.agent.services.rollout.crew import Crew
from holdfast.agent.services.rollout.driver import LOOK_S, Rollout
from holdfast.errors import Failed
from holdfast.model.container import Container, Guest, Part
from holdfast.ports.runtime import PortTaken
from holdfast.reconcile import steps


class ObservedService:
    """`guests` say how what is here is prepared and probed: what is wanted, and what served before."""

    def __init__(self, crew: Crew, service: str, guests: Sequence[Guest]) -> None:
        self._crew = crew
        self._service = service
        self._guests = guests

    async def restart(self) -> None:
        """One after the other; the next is stopped once this one answers, or will not."""
        for one in await self._found():
            await self._crew.stop(one)
            await self._start(one)
        await self._route()

    async def start(self) -> None:
        for one in await self._found():
            if not one.running:
                await self._start(one)
        await self._route()

    async def _found(self) -> tuple[Container, ...]:
        await self._crew.inventory.look()
        found = self._crew.inventory.of(self._service)
        if not found:
            raise Failed(
                f"service.{self._service} has no container on this node, and none is made while it only observes",
                remedy='set reconcile = "converge" for this node in fleet.toml and apply',
                code="only_observes",
            )
        return found

    async def _start(self, container: Container) -> None:
        part = self._part(container)
        if part is not None:
            self._crew.prepare_mounts(part.spec)
            self._crew.world.secrets.prepare(container.name, part.spec.secrets)
        try:
            await self._crew.world.runtime.start(container.id)
        except PortTaken as taken:
            raise Failed(
                f"port {taken.port} of this node, which {steps.label(container)} answers on, is taken",
                remedy=f"see who has it and end that: ss -ltnp 'sport = :{taken.port}'",
                code="port_taken",
            ) from taken
        started = await self._crew.inventory.refresh(container.id)
        if started is not None:
            self._crew.health_checks.follow(started, part)
            await self._judged(started, part)

    async def _judged(self, container: Container, part: Part | None) -> None:
        """Nothing is changed while it is waited for, so another service may have this one's place."""
        async with self._crew.lanes.resting():
            while not await self._crew.health_checks.moved([container.id], LOOK_S):
                found = await self._crew.inventory.refresh(container.id)
                if found is None or self._crew.health_checks.seen(found, part).health != "starting":
                    return

    def _part(self, container: Container) -> Part | None:
        parts = (part for guest in self._guests for part in guest.parts)
        return next((p for p in parts if (p.spec.component, p.digest) == (container.component, container.spec)), None)

    async def _route(self) -> None:
        """A stop took its routes away; they lead to what served, never to what is only applied."""
        record = self._crew.records.of(self._service)
        if record.serving is None or not self._crew.routes.has_proxy:
            return
        here = await Rollout(self._crew, self._service, record.serving, record.serving_revision).here()
        self._crew.routes.certify(record.serving, here)
        await self._crew.routes.switch(record.serving, here)
