"""A hub and an agent over memory: data is copied while the service runs, at a limit the rollout waits. N12"""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import Failed
from holdfast.model.container import Container
from holdfast.model.fleet import Service, Volume
from holdfast.ports.storage import Checkpoint
from holdfast.reconcile import checkpoints
from tests.fleets.agents import until
from tests.fleets.deploying import Scene, component, play, service

DATA = Volume("book", "/data", "none")
CACHE = Volume("cache", "/cache", "none", checkpoint="off")


def kept(version: int = 1, **changed: Any) -> Service:
    return service(version, **{"volumes": (DATA,), **changed})


def write(scene: Scene, text: bytes = b"the only copy") -> None:
    scene.machine.storage.contents["web"]["book/page"] = text


def copies(scene: Scene) -> list[dict[str, bytes]]:
    return [files for _, files in scene.machine.storage.copies.values()]


def running(scene: Scene) -> list[Container]:
    return [one for one in scene.ours() if one.running]


def test_data_is_copied_while_the_service_runs_and_the_rest_while_nothing_writes_n12() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        storage, at_copy = scene.machine.storage, []
        ahead = storage.copy_ahead

        def seen(*given: Any) -> Any:
            at_copy.append(len(running(scene)))
            done = ahead(*given)
            write(scene, b"written after the copy")
            return done

        storage.copy_ahead = seen  # type: ignore[assignment, method-assign]
        scene.apply({"web": kept(2)})
        state = await scene.settled()
        names = [step.name for step in state.steps]
        order = [names.index(name) for name in ("copy main", "stop old main 0", "checkpoint main", "start main 0")]
        assert order == sorted(order) and at_copy == [1]
        assert [files["book/page"] for files in copies(scene)] == [b"written after the copy"]

    play({"web": kept()}, story)


def fill(scene: Scene, count: int) -> None:
    for number in range(count):
        id = f"c{number}-{'x' * 60}"  # as long as those of rollouts are
        made = Checkpoint("web", id, f"/memory/.checkpoints/web/{id}", 1, 1e12, files=1)
        scene.machine.storage.copies["web", f"c{number}"] = made, {}


async def waits(scene: Scene, why: str) -> None:
    """Nothing was stopped, nothing failed for good, and the report names the remedy."""
    (one,) = running(scene)
    scene.apply({"web": kept(2)})
    state = await scene.settled("failed")
    assert (state.code, state.step) == ("needs_operator", "copy main") and why in state.message
    assert "nothing was stopped" in state.message and "holdfast checkpoint delete web" in state.remedy
    assert [each.id for each in running(scene)] == [one.id]


@pytest.mark.parametrize("limit", ["count", "share", "space"])
def test_at_a_limit_the_rollout_waits_before_anything_stops_and_goes_on_after_a_deletion_n12(limit: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        storage = scene.machine.storage
        if limit == "count":
            fill(scene, checkpoints.COUNT_MAX)
        elif limit == "share":
            storage.disk_bytes = 20
        else:
            storage.room_bytes = 5
        words = {"count": "1000 is the most", "share": "more than half of the disk", "space": "its disk has 5 B for it"}
        await waits(scene, words[limit])
        storage.copies.pop(("web", "c0"), None)
        storage.disk_bytes = storage.room_bytes = 1 << 40
        await scene.settled(at_most_s=300.0)
        assert copies(scene)[-1]["book/page"] == b"the only copy"
        reported = scene.machine.built.services.section()
        counts = [one.count for one in reported.unlisted_checkpoints]
        assert len(reported.checkpoints) + sum(counts) == len(copies(scene)) and bool(counts) == (limit == "count")

    play({"web": kept()}, story)


def test_a_limit_counts_every_checkpoint_that_the_rollout_makes() -> None:
    """Two components get new images, so two checkpoints are made: one place is not enough."""

    def both(version: int) -> Service:
        more = Volume("log", "/log", "none")
        return Service((component(version, volumes=(DATA,)), component(version, "side", volumes=(more,))))

    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.machine.storage.contents["web"]["log/page"] = b"1"
        fill(scene, checkpoints.COUNT_MAX - 1 - len(copies(scene)))
        ids = {each.id for each in running(scene)}
        scene.apply({"web": both(2)})
        state = await scene.settled("failed")
        assert state.code == "needs_operator" and state.message.startswith("999 checkpoints of web")
        assert {each.id for each in running(scene)} == ids
        del scene.machine.storage.copies["web", "c0"]
        await scene.settled(at_most_s=300.0)
        assert len(copies(scene)) == checkpoints.COUNT_MAX

    play({"web": both(1)}, story)


def test_a_disk_that_fills_while_it_is_copied_ahead_is_the_same() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        trouble = Failed("there is not enough space", remedy="df", code="no_space")
        scene.machine.storage.troubles_ahead = [trouble] * 3
        await waits(scene, "there is not enough space")
        await scene.settled(at_most_s=300.0)

    play({"web": kept()}, story)


def test_a_disk_that_fills_in_the_stop_fails_the_rollout_and_the_old_version_serves_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        (one,) = running(scene)
        scene.machine.storage.troubles = [Failed("there is not enough space", remedy="df", code="no_space")]
        scene.apply({"web": kept(2)})
        state = await scene.settled("failed")
        assert (state.code, state.step) == ("no_space", "checkpoint main") and copies(scene) == []
        assert [each.id for each in running(scene)] == [one.id]

    play({"web": kept()}, story)


def test_a_volume_that_is_off_is_not_copied_and_its_new_writer_starts_at_once() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["web"] |= {"book/page": b"1", "cache/big": b"2" * 100}
        storage, ahead = scene.machine.storage, list[Any]()
        storage.room_bytes = 50  # enough for the one, not for the other
        real = storage.copy_ahead
        storage.copy_ahead = lambda *given: ahead.append(given[2]) or real(*given)  # type: ignore[func-returns-value, method-assign]
        scene.apply({"web": kept(2, volumes=(DATA, CACHE))})
        await scene.settled()
        assert ahead == [{"cache"}]
        assert [sorted(files) for files in copies(scene)] == [["book/", "book/page"]]
        scene.apply({"web": kept(3, volumes=(DATA, CACHE))})
        await scene.settled()
        assert len(copies(scene)) == 2

    play({"web": kept(volumes=(DATA, CACHE))}, story)


def test_a_service_whose_volumes_are_all_off_has_no_checkpoint() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["web"]["cache/big"] = b"2"
        scene.apply({"web": kept(2, volumes=(CACHE,))})
        state = await scene.settled()
        names = [step.name for step in state.steps]
        assert copies(scene) == [] and "copy main" not in names and "checkpoint main" not in names

    play({"web": kept(volumes=(CACHE,))}, story)


def test_switching_checkpoints_off_restarts_nothing() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        (one,) = running(scene)
        scene.apply({"web": kept(volumes=(replace(DATA, checkpoint="off"),))})
        await scene.settled()
        assert [each.id for each in running(scene)] == [one.id] and copies(scene) == []

    play({"web": kept()}, story)


def test_a_killed_agent_copies_again_what_it_had_copied_ahead() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        storage, real = scene.machine.storage, scene.machine.storage.checkpoint
        killed: list[bool] = []

        def checkpoint(*given: Any) -> Checkpoint:
            if not killed:
                killed.append(True)
                raise MemoryError("the agent is killed here")
            return real(*given)

        storage.checkpoint = checkpoint  # type: ignore[assignment, method-assign]
        scene.apply({"web": kept(2)})
        await until(scene.rig, lambda: bool(killed))
        await scene.kill()
        scene.start()
        await scene.settled(at_most_s=300.0)
        assert [files["book/page"] for files in copies(scene)] == [b"the only copy"]

    play({"web": kept()}, story)


def test_data_of_a_component_with_the_longest_name_has_checkpoints() -> None:
    longest = "c" * 40

    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.apply({"web": service(2, longest, volumes=(DATA,), routes=())})
        await scene.settled()
        (made,) = scene.machine.storage.checkpoints()
        assert f"-{longest}-" in made.id

    play({"web": service(1, longest, volumes=(DATA,), routes=())}, story)
