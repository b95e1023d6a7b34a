"""Steps about the data of a service: a checkpoint before a new writer gets it. Old ones are pruned."""

import asyncio

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.rollout.driver import Performers
from holdfast.agent.services.rollout.progress import Progress
from holdfast.agent.time import NodeTime
from holdfast.gate import copies
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Discardable, Storage
from holdfast.reconcile import steps

CHECKPOINTS_KEPT_S = 7 * 24 * 3600.0


class DataSteps:
    def __init__(
        self, *, storage: Storage, volumes: Volumes, journal: Journal, time: NodeTime, lanes: Lanes, node: str
    ) -> None:
        self._storage = storage
        self._volumes = volumes
        self._journal = journal
        self._time = time
        self._lanes = lanes
        self._node = node
        self.performers: Performers = {steps.Checkpoint: self._checkpoint}

    async def _checkpoint(self, progress: Progress, step: steps.Checkpoint) -> None:
        operation, wanted, component = progress.operation, progress.wanted, step.part.spec.component
        assert operation is not None and wanted is not None
        id = f"{wanted.deployment}-{component}-{int(operation.begun_s)}"  # a later attempt finds other data
        await self._lanes.alone(progress.service)
        loop = asyncio.get_running_loop()
        now_s = self._time.now_s()
        made = await loop.run_in_executor(None, self._storage.checkpoint, progress.service, id, now_s)
        self._journal.note_made(made.path, operation.id, True)
        if self._time.alarm is None:  # a clock that is years ahead makes every checkpoint look old
            await loop.run_in_executor(None, self._prune, progress.service, now_s)
        self._volumes.checkpointed(step.part, wanted.deployment, made.id)

    def _prune(self, service: str, now_s: float) -> None:
        """Those older than seven days, never the newest, and only those that this agent marked (gate)."""
        kept = [one for one in self._storage.checkpoints() if one.service == service]
        for old in kept[:-1]:
            if now_s - old.made_s < CHECKPOINTS_KEPT_S:
                continue
            proof = copies.may_discard(self._journal, old, self._node)
            if isinstance(proof, Discardable):
                self._storage.discard(proof)
                self._journal.forget_made(old.path)
