"""Steps of a rollout about data: they end with it, work alone, and leave no mark of a checkpoint that is gone."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.checkpoints import Checkpoints
from holdfast.agent.services.data.telling import EVERY_BYTES, Over
from holdfast.agent.services.rollout.steps.data import DataSteps
from holdfast.model.checkpoint import Taken
from holdfast.model.container import Guest
from holdfast.reconcile import steps
from holdfast.reconcile.checkpoints import KEPT_S
from tests.specs.reconcile.guests import guest, part

PART = part("web", volume="files")
TARGET = guest(PART)
NOW_S = 1e9


class Scene:
    def __init__(self, **contents: bytes) -> None:
        self.storage, self.journal, self.lanes = MemoryStorage("w1", {"shop": contents}), MemoryJournal(), Lanes()
        self.said: list[str] = []
        self.noted: list[str] = []
        parts: Any = {"time": SimpleNamespace(now_s=lambda: NOW_S, floor_s=NOW_S)}
        parts["checkpoints"] = SimpleNamespace(took=self._took)
        parts["volumes"] = SimpleNamespace(checkpointed=lambda part, deployment, id: self.noted.append(id))
        found = DataSteps(storage=self.storage, journal=self.journal, lanes=self.lanes, node="w1", **parts)
        self.performers: Any = found.performers
        self.progress = self.of(TARGET)

    def of(self, target: Guest) -> Any:
        attempt = SimpleNamespace(say=self.said.append)
        operation = SimpleNamespace(id="a" * 32)
        return SimpleNamespace(service="shop", target=target, operation=operation, attempt=attempt, ahead=set())

    async def _took(self, progress: Any, made: Any) -> None:
        self.noted.append(made.path)

    async def perform(self, step: steps.CopyAhead | steps.Checkpoint) -> None:
        await self.performers[type(step)](self.progress, step)


def test_a_copy_tells_how_far_it_is_and_ends_when_its_rollout_is_cancelled() -> None:
    """Its thread cannot be cancelled: it ends at the next block, and copies beside no other rollout."""
    begun, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    def copy_ahead(service: str, id: str, off: Any, tell: Any) -> None:
        for _ in range(5):
            tell(EVERY_BYTES // 2)
        begun.set()
        cancelled.wait(20)
        try:
            tell(1)
        except Over:
            ended.set()

    async def story() -> None:
        scene = Scene()
        scene.storage.copy_ahead = copy_ahead  # type: ignore[assignment, method-assign]
        task = asyncio.ensure_future(scene.perform(steps.CopyAhead(PART, 0)))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, 20)
        await asyncio.sleep(0)
        assert [text.partition(" copied")[0] for text in scene.said] == ["256 MiB", "512 MiB"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        cancelled.set()
        await asyncio.get_running_loop().run_in_executor(None, ended.wait, 20)
        assert ended.is_set() and scene.progress.ahead == set()

    asyncio.run(story())


def test_a_checkpoint_waits_for_those_who_write_beside_the_service() -> None:
    """Nothing of the service may run and be stopped first: a run of a schedule may still write."""

    async def story() -> None:
        scene = Scene(page=b"1")

        async def rollout() -> None:
            await scene.perform(steps.Checkpoint(PART))

        async with scene.lanes.shared("shop"):
            scene.lanes.put("shop", rollout)
            await asyncio.sleep(0.05)
            assert scene.storage.checkpoints() == []
            scene.storage.contents["shop"]["page"] = b"written last"
        assert await scene.lanes.quiet(20)
        (made,) = scene.storage.checkpoints()
        assert scene.storage.copies["shop", made.id][1] == {"page": b"written last"}
        assert scene.noted == [made.path, made.id] and scene.journal.is_scratch(made.path)

    asyncio.run(story())


def test_after_a_checkpoint_data_is_copied_ahead_again() -> None:
    """What was copied became the checkpoint: the next one of this rollout begins with another copy."""

    async def story() -> None:
        scene = Scene(page=b"1")
        await scene.perform(steps.CopyAhead(PART, 0))
        assert scene.progress.ahead == {"web"}
        await scene.perform(steps.Checkpoint(PART))
        assert scene.progress.ahead == set()

    asyncio.run(story())


def test_a_checkpoint_that_is_pruned_leaves_no_mark_behind() -> None:
    """With the mark, another copy of the same path could be deleted without an order."""

    async def story() -> None:
        scene = Scene(page=b"1")
        made = [scene.storage.checkpoint("shop", f"c{n}", NOW_S - KEPT_S - 10 + n) for n in range(3)]
        for one in made[:2]:
            scene.journal.note_made(one.path, "op", one is made[0])
        await scene.perform(steps.CopyAhead(PART, 0))
        assert [one.id for one in scene.storage.checkpoints()] == ["c1", "c2"], "only what this agent marked"
        assert scene.journal.made_by(made[0].path) is None and scene.journal.made_by(made[1].path) == "op"

    asyncio.run(story())


def test_what_a_checkpoint_is_of_is_kept_though_a_look_that_began_before_did_not_see_it() -> None:
    """Several services are rolled out at a time, and each looks at the checkpoints of all."""

    async def story() -> None:
        scene = Scene(page=b"1")
        found = scene.storage.checkpoints
        parts: Any = {"passports": None, "changed": lambda: None}
        kept = Checkpoints(storage=scene.storage, journal=scene.journal, node="w1", **parts)
        loop = asyncio.get_running_loop()

        def looked_at() -> Any:
            seen = found()
            made = scene.storage.checkpoint("shop", "one", NOW_S)  # by another lane
            asyncio.run_coroutine_threadsafe(note(made), loop).result(20)
            return seen

        async def note(made: Any) -> None:
            kept.note(made, Taken("d1", 3))

        scene.storage.checkpoints = looked_at  # type: ignore[method-assign]
        await kept.look()
        scene.storage.checkpoints = found  # type: ignore[method-assign]
        await kept.look()
        assert [(one.id, one.deployment, one.revision) for one in kept.reported.checkpoints] == [("one", "d1", 3)]

    asyncio.run(story())
