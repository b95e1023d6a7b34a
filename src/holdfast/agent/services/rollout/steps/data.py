"""Steps about the data of a service: it is copied while the service runs, and becomes a checkpoint before a new writer
gets it. Old checkpoints are pruned."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.checkpoints import Checkpoints
from holdfast.agent.services.data.telling import Telling
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.rollout.driver import Performers
from holdfast.agent.services.rollout.progress import Progress
from holdfast.agent.time import NodeTime
from holdfast.errors import Failed, SignatureRequired
from holdfast.gate import copies
from holdfast.model.container import Guest, Part
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Discardable, Storage
from holdfast.reconcile import checkpoints, steps

T = TypeVar("T")


class DataSteps:
    def __init__(
        self,
        *,
        storage: Storage,
        volumes: Volumes,
        checkpoints: Checkpoints,
        journal: Journal,
        time: NodeTime,
        lanes: Lanes,
        node: str,
    ) -> None:
        self._storage = storage
        self._volumes = volumes
        self._checkpoints = checkpoints
        self._journal = journal
        self._time = time
        self._lanes = lanes
        self._node = node
        self.performers: Performers = {steps.CopyAhead: self._copy_ahead, steps.Checkpoint: self._checkpoint}

    async def _copy_ahead(self, progress: Progress, step: steps.CopyAhead) -> None:
        """Before anything is stopped: what has no room waits here, and the service goes on."""
        service, off = progress.service, checkpoints.off(_target(progress))
        await _in_thread(partial(self._make_room, service, off, step.more + 1))
        told = Telling(progress.attempt.say)
        id = _id(progress, step.part)
        try:
            await _in_thread(partial(self._storage.copy_ahead, service, id, off, told.moved))
        except Failed as trouble:
            if trouble.code != "no_space":
                raise
            raise self._parked(service, trouble.message) from trouble
        finally:
            told.end()  # a rollout that is cancelled ends the thread
        progress.ahead.add(step.part.spec.component)

    async def _checkpoint(self, progress: Progress, step: steps.Checkpoint) -> None:
        operation, target = progress.operation, _target(progress)
        assert operation is not None
        await self._lanes.alone(progress.service)
        off, id = checkpoints.off(target), _id(progress, step.part)
        copy = partial(self._storage.checkpoint, progress.service, id, self._time.now_s(), off)
        made = await _in_thread(copy)
        progress.ahead.clear()
        self._journal.note_made(made.path, operation.id, True)
        await self._checkpoints.took(progress, made)
        self._volumes.checkpointed(step.part, target.deployment, made.id)

    def _make_room(self, service: str, off: frozenset[str], wanted: int) -> None:
        self._prune(service, self._time.floor_s)  # by a clock that is years ahead every checkpoint is old
        need = self._storage.need(service, off)
        refusal = need and checkpoints.refusal(self._storage.checkpoints(), service, need, wanted)
        if refusal:
            raise self._parked(service, refusal)

    def _parked(self, service: str, why: str) -> SignatureRequired:
        return SignatureRequired(
            f"{why}; nothing was stopped, and the rollout waits",
            remedy=f"`holdfast checkpoint list {service}`, and for one that is not needed: "
            f"holdfast checkpoint delete {service} ID -n {self._node}; or free space on the disk of {self._node}; the "
            "rollout then goes on",
            code="needs_operator",
        )

    def _prune(self, service: str, now_s: float) -> None:
        """Only those that this agent marked (gate)."""
        for old in checkpoints.prunable(self._storage.checkpoints(), service, now_s):
            proof = copies.may_discard(self._journal, old, self._node)
            if isinstance(proof, Discardable):
                self._storage.discard(proof)
                self._journal.forget_made(old.path)


def _target(progress: Progress) -> Guest:
    target = progress.target
    assert target is not None
    return target


def _id(progress: Progress, part: Part) -> str:
    """A later attempt finds other data, also in the same second."""
    assert progress.operation is not None
    return f"{_target(progress).deployment}-{part.spec.component}-{progress.operation.id[:12]}"


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
