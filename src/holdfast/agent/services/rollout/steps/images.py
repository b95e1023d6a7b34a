"""Steps about what a container needs before it is created: images and networks."""

import asyncio

from holdfast.agent.services.rollout.driver import Performers
from holdfast.agent.services.rollout.images import Images
from holdfast.agent.services.rollout.networks import Networks
from holdfast.agent.services.rollout.progress import Progress
from holdfast.errors import TryLater
from holdfast.ports.runtime import Runtime
from holdfast.reconcile import steps

PULL_TRIES = 3


class ImageSteps:
    def __init__(self, runtime: Runtime, images: Images, networks: Networks) -> None:
        self._runtime = runtime
        self._images = images
        self._networks = networks
        self.performers: Performers = {
            steps.Pull: self._pull,
            steps.MakeNetwork: self._make_network,
            steps.RemoveNetwork: self._remove_network,
        }

    async def _pull(self, progress: Progress, step: steps.Pull) -> None:
        for tried in range(1, PULL_TRIES + 1):
            try:
                await self._runtime.pull(step.reference, progress.attempt.say)
                break
            except TryLater:
                if tried == PULL_TRIES:
                    raise
                await asyncio.sleep(tried)
        self._images.pulled(step.reference)

    async def _make_network(self, progress: Progress, step: steps.MakeNetwork) -> None:
        await self._networks.make(step.network, progress.service)

    async def _remove_network(self, progress: Progress, step: steps.RemoveNetwork) -> None:
        await self._networks.remove(step.network, progress.service)
        progress.removed.add(step.network)
