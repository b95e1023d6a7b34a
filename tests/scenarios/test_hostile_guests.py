"""Images, containers, disks and stores that are not as they should be: what an agent does, and what it says of it."""

import asyncio

import pytest

from holdfast.adapters.runtime.memory import Behaviour
from holdfast.errors import Failed, NotPermitted
from holdfast.model.fleet import Hooks, Service, Volume
from tests.fleets.agents import until
from tests.fleets.deploying import Scene, component, image, play, service

DATA = Volume("files", "/data", "none")


def full(*given: object, **named: object) -> None:
    raise Failed("no space is left on the disk", remedy="free some: df", code="no_space")


def test_a_link_that_the_old_one_left_in_place_of_a_volume_is_not_mounted() -> None:
    """It is made while the old one still runs, and looked at again before it is started."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        old, storage = scene.one(), scene.machine.storage
        volume, asked = storage.volume, 0

        def linked(owner: str, name: str) -> str:
            nonlocal asked
            asked += 1
            if asked > 1:
                raise NotPermitted(f"{owner}/{name} is a link", remedy="look at it")
            return volume(owner, name)

        storage.volume = linked  # type: ignore[method-assign]
        scene.apply({"web": service(2, volumes=(DATA,))})
        await asyncio.sleep(5)
        started = [call.subject for call in scene.machine.runtime.calls if call.verb == "start"]
        assert started == [old.name], "the new one was not started"

    play({"web": service(volumes=(DATA,))}, story)


def test_a_disk_that_was_full_when_a_deployment_came_skips_none_of_its_hooks() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert len(scene.verbs("run")) == 1
        journal = scene.machine.journal
        set_aside = journal.set_aside

        def picky(name: str, value: bytes) -> None:
            if name.startswith("service/"):
                full()
            set_aside(name, value)

        journal.set_aside = picky  # type: ignore[method-assign]
        scene.apply({"web": service(2, hooks=Hooks(("migrate",)))})
        await asyncio.sleep(20)
        assert {one.image for one in scene.ours()} == {image(1)}, "nothing is begun that could not be written down"
        state = scene.state()
        assert state is not None and state.phase != "converged"
        journal.set_aside = set_aside  # type: ignore[method-assign]
        state = await scene.settled(at_most_s=120)
        assert state.images == (image(2),) and len(scene.verbs("run")) == 2 and state.serving_revision == 2

    play({"web": service(hooks=Hooks(("migrate",)))}, story)


def test_a_disk_that_is_full_does_not_keep_other_services_from_being_healed() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.settled(name="other")
        journal = scene.machine.journal
        set_aside = journal.set_aside
        journal.set_aside = lambda name, value: full() if name == "service/web" else set_aside(name, value)  # type: ignore[method-assign, assignment]
        scene.apply({"web": service(2), "other": service()})
        await asyncio.sleep(10)
        other = next(one for one in scene.ours() if one.service == "other")
        scene.machine.runtime.crash(other.id, 0)
        await until(scene.rig, lambda: scene.machine.runtime.named(other.name).running, 90)

    play({"web": service(), "other": service()}, story)


def test_while_the_runtime_is_away_nothing_is_called_converged() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.away = True
        await until(scene.rig, lambda: "runtime_unavailable" in scene.findings(), 60)
        await asyncio.sleep(120)
        state = scene.state()
        assert state is not None and state.phase == "settling"
        scene.machine.runtime.away = False
        await scene.settled(at_most_s=120)

    play({"web": service()}, story)


def test_a_store_that_was_wiped_is_filled_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        runtime = scene.machine.runtime
        runtime.here.clear()
        runtime.networks.clear()
        old = {one.id for one in scene.ours()}
        for id in old:
            runtime.vanish(id)

        def is_back() -> bool:
            now = scene.ours()
            return len(now) == 2 and all(one.running and one.id not in old for one in now)

        await until(scene.rig, is_back, 120)
        await scene.settled()

    play({"web": Service((component(1, "front"), component("b", "back")))}, story)


def test_last_words_that_nobody_can_read_do_not_keep_a_deployment_from_failing() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=0.0, exit_code=1)
        scene.machine.runtime.logs = lambda *given: _broken()  # type: ignore[method-assign, assignment]
        scene.apply({"web": service(2)})
        state = await scene.settled("failed")
        assert scene.one().running and state.serving_revision == 1

    play({"web": service()}, story)


async def _broken():  # type: ignore[no-untyped-def]
    raise ValueError("a frame of 99999999 bytes")
    yield


@pytest.mark.parametrize("how", ["restart", "start"])
def test_what_does_not_become_healthy_again_is_not_called_started(how: str) -> None:
    from holdfast.ports.prober import Verdict

    async def story(scene: Scene) -> None:
        await scene.settled()
        assert scene.agent is not None
        scene.machine.prober.script(image(1), Verdict(False, "answered 500"))
        if how == "start":
            await scene.agent.services.stop("web")
        with pytest.raises(Failed, match="answered 500"):
            await getattr(scene.agent.services, how)("web")

    play({"web": service()}, story)
