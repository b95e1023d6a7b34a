"""Steps about containers: create, start, wait until healthy, stop, remove."""

from collections.abc import Sequence

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.volumes import Admission
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.driver import Performers
from holdfast.agent.services.rollout.health_checks import LOOK_S, HealthChecks
from holdfast.agent.services.rollout.host_ports import Ports, port_taken
from holdfast.agent.services.rollout.images import Images
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.progress import Progress
from holdfast.errors import Failed, TryLater
from holdfast.model.container import Container, Part, labels_of, name_of
from holdfast.ports.runtime import PortTaken
from holdfast.reconcile import steps
from holdfast.reconcile.writers import writers_of

PORT_TRIES = 5


class ContainerSteps:
    def __init__(
        self,
        *,
        containers: Containers,
        inventory: ContainerInventory,
        health_checks: HealthChecks,
        images: Images,
        ports: Ports,
        crashes: CrashLoops,
        lanes: Lanes,
    ) -> None:
        self._containers = containers
        self._inventory = inventory
        self._health_checks = health_checks
        self._images = images
        self._ports = ports
        self._crashes = crashes
        self._lanes = lanes
        self.performers: Performers = {
            steps.Create: self._create,
            steps.Start: self._start,
            steps.AwaitHealthy: self._await_healthy,
            steps.Stop: self._stop,
            steps.Remove: self._remove,
        }

    async def _create(self, progress: Progress, step: steps.Create) -> None:
        part = step.part
        name = name_of(part.spec, part.digest, step.replica)
        publish = self._ports.choose(name, part.spec.ports, self._inventory.all())
        deployment = progress.target.deployment if progress.target is not None else ""
        labels = labels_of(part.spec, part.digest, deployment, step.replica)
        try:
            await self._containers.create(name, part.spec, labels, publish, deployment)
        except Failed as trouble:
            if trouble.code != "image_missing":
                raise
            self._images.known.discard(part.spec.reference)  # the image was pruned: the next step pulls it again
            raise TryLater(trouble.message, remedy="it is pulled again automatically", code=trouble.code) from trouble
        self._ports.settled(name)

    async def _start(self, progress: Progress, step: steps.Start) -> None:
        container, part = step.container, step.part
        for tried in range(1, PORT_TRIES + 1):
            try:
                await self._containers.start(container, part.spec, _admission(progress, part))
                break
            except PortTaken as taken:
                self._ports.refused(taken.port)
                if tried == PORT_TRIES or container.started_s > 0:
                    raise port_taken(container, taken) from taken
                container = await self._made_again(progress, container, part)
        progress.tried.add(container.id)
        if container.started_s > 0 and not progress.is_attempt:
            self._crashes.healed(container)
        started = await self._inventory.refresh(container.id)
        if started is not None:
            self._health_checks.follow(started, part)

    async def _made_again(self, progress: Progress, container: Container, part: Part) -> Container:
        """It never ran, so there is nothing to lose: the same container with another port."""
        await self._containers.remove(container)
        await self._create(progress, steps.Create(part, container.replica))
        name = name_of(part.spec, part.digest, container.replica)
        found = next((one for one in self._inventory.of(progress.service) if one.name == name), None)
        if found is None:
            raise TryLater(
                f"{name} was removed right after it was created", remedy="it is tried again", code="runtime_away"
            )
        return found

    async def _await_healthy(self, progress: Progress, step: steps.AwaitHealthy) -> None:
        """Nothing is changed while this waits, so another service may have this one's place in its lane."""
        async with self._lanes.resting():
            await self._wait_for(progress, [one.id for one in step.containers])

    async def _wait_for(self, progress: Progress, ids: Sequence[str]) -> None:
        """Until one of them is not "starting" any more, or has ended."""
        while not await self._health_checks.moved(ids, LOOK_S):
            for id in ids:
                found = await self._inventory.refresh(id)
                part = progress.part_of(found) if found is not None else None
                if found is None or self._health_checks.seen(found, part).health != "starting":
                    return

    async def _stop(self, progress: Progress, step: steps.Stop) -> None:
        await self._containers.stop(step.container, progress.stops)
        progress.tried.discard(step.container.id)

    async def _remove(self, progress: Progress, step: steps.Remove) -> None:
        await self._containers.remove(step.container, progress.removes)


def _admission(progress: Progress, part: Part) -> Admission:
    deployment = progress.target.deployment if progress.target is not None else ""
    return Admission(writers_of(part), deployment, frozenset(part.off))
