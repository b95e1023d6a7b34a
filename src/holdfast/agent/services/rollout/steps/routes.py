"""Steps about the routes of a service at this node's proxy: certify, switch, drain, take away."""

from msgspec.structs import replace

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.data_here import HereWithData
from holdfast.agent.services.rollout.driver import Performers
from holdfast.agent.services.rollout.here import backends_of
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.outcomes import Outcomes
from holdfast.agent.services.rollout.progress import Progress
from holdfast.agent.traffic.internal_routes import InternalRoutes
from holdfast.model.container import Guest
from holdfast.reconcile import rollout, steps

DRAIN_S_MAX = 10.0


class RouteSteps:
    def __init__(
        self,
        *,
        routes: InternalRoutes,
        here: HereWithData,
        records: Records,
        inventory: ContainerInventory,
        lanes: Lanes,
        outcomes: Outcomes,
        volumes: Volumes,
    ) -> None:
        self._routes = routes
        self._here = here
        self._records = records
        self._inventory = inventory
        self._lanes = lanes
        self._outcomes = outcomes
        self._volumes = volumes
        self.performers: Performers = {
            steps.Certify: self._certify,
            steps.Switch: self._switch,
            steps.Unroute: self._unroute,
            steps.Unlist: self._unlist,
            steps.Drain: self._drain,
        }

    async def _certify(self, progress: Progress, step: steps.Certify) -> None:
        assert progress.target is not None
        self._routes.certify(progress.target, await self._here.of(progress.service, progress.wanted, progress))

    async def _switch(self, progress: Progress, step: steps.Switch) -> None:
        target, record = progress.target, progress.record
        assert target is not None
        if progress.is_attempt and not await self._all_alive(progress.service, target):
            return  # a container answered once and is gone: the table is asked again
        here = await self._here.of(progress.service, progress.wanted, progress)
        if progress.is_attempt and not isinstance(rollout.next_step(target, here), steps.Switch):
            return  # another look found meanwhile that one of them is not healthy
        async with self._lanes.resting():  # while the proxy loads its routes, another service may have this one's place
            await self._routes.switch(target, here)
        if target is progress.wanted:
            revision = record.applied_revision or progress.revision
            serves = replace(record, serving=target, serving_revision=revision, failure=None)
            self._records.keep(progress.service, serves)
            self._volumes.proven(target, revision)
            self._outcomes.served(progress.service)

    async def _all_alive(self, service: str, target: Guest) -> bool:
        """Looked at once more before the routes leave what served so far."""
        wanted = {part.digest for part in target.parts}
        here = [one for one in self._inventory.of(service) if one.spec in wanted]
        gone = [one for one in here if not self._inventory.is_alive(one)]
        for one in gone:
            await self._inventory.refresh(one.id)
        return not gone

    async def _unroute(self, progress: Progress, step: steps.Unroute) -> None:
        await self._routes.unroute(progress.service)

    async def _unlist(self, progress: Progress, step: steps.Unlist) -> None:
        await self._routes.unlist(progress.service)

    async def _drain(self, progress: Progress, step: steps.Drain) -> None:
        gone = [backend for one in step.containers for backend in backends_of(one)]
        await self._routes.drained(gone, DRAIN_S_MAX)
        progress.drained.update(one.id for one in step.containers)
