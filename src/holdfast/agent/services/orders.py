"""Orders about a service, each in its lane: done to its containers, and told as they really ended. Never to data."""

from msgspec.structs import replace

from holdfast.agent.services.keeper import Services
from holdfast.agent.world import World
from holdfast.errors import Failed


class ServiceOrders:
    def __init__(self, world: World, services: Services) -> None:
        self._world = world
        self._services = services

    async def restart(self, service: str) -> str:
        """A failed deployment is tried again; otherwise each container is stopped and started, one after the other."""
        record = self._services.known(service)
        if self._services.observes:
            self._lift_hold(service, "restarted")
            await self._services.in_place(service).restart()
            return self._told_in_place(service, "restarted")
        self._services.forgive(service, replace(record, held=False, failure=None))
        if record.failure is None and not record.held:
            for one in self._services.crew.inventory.of(service):
                await self._services.crew.stop(one)
                await self._services.drive(service)
        await self._services.drive(service)
        return self._told(service, "restarted")

    async def stop(self, service: str) -> str:
        """Held before anything is stopped: a crash in between stops the rest, and starts nothing (C-30)."""
        self._services.records.keep(service, replace(self._services.known(service), held=True))
        await self._services.drive(service)
        return f"service.{service} is stopped, and held until it is started or something new is deployed"

    async def start(self, service: str) -> str:
        if self._services.observes:
            self._lift_hold(service, "started")
            await self._services.in_place(service).start()
            return self._told_in_place(service, "started")
        self._services.forgive(service, replace(self._services.known(service), held=False))
        await self._services.drive(service)
        return self._told(service, "started")

    async def clean_up(self, service: str) -> str:
        """Containers only, and only those made here. What is applied is made anew afterwards."""
        self._services.known(service)
        self._refuse_observing(service)
        found = self._services.crew.inventory.of(service)
        for one in found:
            await self._services.crew.stop(one)
            await self._world.runtime.remove(one.id)
            self._world.secrets.forget(one.name)
            await self._services.crew.inventory.refresh(one.id)
        self._services.forgive(service, self._services.records.of(service))
        await self._services.drive(service)
        counted = "1 container" if len(found) == 1 else f"{len(found)} containers"
        return f"removed {counted} of service.{service}; its data was not touched"

    def _lift_hold(self, service: str, done: str) -> None:
        """Where nothing is deployed: what failed stays failed, as it is not tried again."""
        record = self._services.known(service)
        self._refuse_inactive(service, done)
        self._services.records.keep(service, replace(record, held=False))

    def _told_in_place(self, service: str, done: str) -> str:
        self._services.wake()
        self._refuse_ill(service, done)
        return f"service.{service} is {done} as it was; this node only observes, so nothing was deployed"

    def _refuse_observing(self, service: str) -> None:
        """It would have to be made anew, and is not where nothing is made: the service would be gone."""
        if self._services.observes:
            raise Failed(
                f"service.{service} is not cleaned up: this node only observes, so nothing would be made in its place",
                remedy='set reconcile = "converge" for this node in fleet.toml and apply, then order it again',
                code="only_observes",
            )

    def _told(self, service: str, done: str) -> str:
        self._refuse_inactive(service, done)
        failure = self._services.records.of(service).failure
        if failure is not None:
            raise Failed(
                f"service.{service}: step {failure.step!r} failed: {failure.message}",
                remedy=failure.remedy,
                code=failure.code,
            )
        self._refuse_ill(service, done)
        return f"service.{service} is {done}"

    def _refuse_inactive(self, service: str, done: str) -> None:
        """An order does not overrule what is declared, and must not sound as if it did."""
        if not self._services.is_active(service):
            raise Failed(
                f"service.{service} is not {done}: it is declared with active = false, and stays stopped",
                remedy=f"take active = false out of services/{service}.toml, then: holdfast deploy {service}",
                code="inactive",
            )

    def _refuse_ill(self, service: str, done: str) -> None:
        """What was started and does not answer is not called started."""
        if not self._services.is_active(service):
            return
        for one in self._services.crew.inventory.of(service):
            if not one.running or self._services.health_checks.word(one) in ("failed", "unhealthy"):
                why = self._services.health_checks.why(one.id) or "it does not stay up"
                raise Failed(
                    f"service.{service} was {done}, but {one.component} {one.replica} is not healthy: {why}",
                    remedy=f"holdfast logs {service}",
                    code="unhealthy",
                )
