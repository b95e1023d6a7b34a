"""A hub and an agent over memory: the agent reports what an update of a service with data would cost."""

import msgspec

from holdfast.agent.figures.keeper import FACT
from holdfast.errors import Failed
from holdfast.model.data_figures import DataFigures, DataSection
from holdfast.reconcile.downtime import Learned
from tests.fleets.agents import until
from tests.fleets.deploying import Scene, play
from tests.scenarios.test_checkpoints import kept, write


def figures(scene: Scene) -> DataFigures | None:
    """From the report that the agent signed."""
    section = msgspec.json.decode(scene.machine.built.reporter.content, type=DataSection)
    return next((one for one in section.data if one.service == "web"), None)


def test_the_figures_of_the_data_are_in_the_report_and_learned_from_each_rollout() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene, b"x" * 123_456)
        scene.apply({"web": kept(2)})
        await scene.settled()
        await until(scene.rig, lambda: (figures(scene) or DataFigures("web", 0, 0)).size_bytes > 0, 90.0)
        found = figures(scene)
        assert found is not None and (found.size_bytes, found.files) == (120_000, 1), "two digits"
        assert found.down_s > 0.2 and found.free_bytes > 0
        text = scene.machine.journal.fact(FACT + "web")
        assert text is not None and msgspec.json.decode(text, type=Learned).down_s > 0.0

    play({"web": kept()}, story)


def test_what_was_copied_for_a_rollout_that_failed_is_deleted() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        storage = scene.machine.storage
        storage.troubles = [Failed("no", remedy="df", code="no_space")]
        scene.apply({"web": kept(2)})
        await scene.settled("failed")
        await until(scene.rig, lambda: storage.ahead == {}, 90.0)

    play({"web": kept()}, story)


def test_a_service_that_leaves_has_no_figures() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        await until(scene.rig, lambda: figures(scene) is not None, 90.0)
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [] and figures(scene) is None, 90.0)

    play({"web": kept()}, story)
