"""Green means that it answers: what a deployment waits for, and what is told of containers that keep ending."""

import asyncio
from typing import Any

import pytest
from msgspec import UNSET

from holdfast.adapters.prober.memory import NOTHING
from holdfast.adapters.runtime.memory import Behaviour
from holdfast.model.container import Container
from holdfast.model.fleet import Route, Service
from holdfast.model.report import ContainerState
from holdfast.ports.prober import Verdict
from tests.fleets.agents import services_of, until
from tests.fleets.deploying import Scene, image, play, service

LOOP_S_MAX = 15.0  # the truth is shown within this


def plain(version: int = 1, **changed: Any) -> dict[str, Service]:
    """Neither routes nor a check."""
    return {"web": service(version, health=UNSET, routes=(), **changed)}


def reported(scene: Scene) -> ContainerState:
    assert scene.agent is not None
    (found,) = services_of(scene.agent).status.section().containers
    return found


def test_a_route_whose_port_takes_no_connection_fails_the_deployment_n15() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.prober.script(image(2), NOTHING)
        scene.apply({"web": service(2, health=UNSET)})
        state = await scene.settled("failed")
        assert "nothing listens there" in state.message
        assert scene.one().image == image(1) and scene.one().running, "what served before serves"

    play({"web": service(1, health=UNSET)}, story)


def test_each_port_of_a_route_must_take_a_connection_n15() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.prober.script(image(2), Verdict(True), NOTHING)  # 8080 does, 9000 does not
        scene.apply({"web": service(2, health=UNSET, routes=(Route("http", 8080), Route("admin", 9000)))})
        assert "nothing listens there" in (await scene.settled("failed")).message

    play({"web": service(1, health=UNSET)}, story)


def test_a_port_that_closes_later_is_unhealthy_n15() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert reported(scene).status == "running"
        scene.machine.prober.script(image(1), NOTHING)
        await until(scene.rig, lambda: reported(scene).status == "unhealthy", LOOP_S_MAX)

    play({"web": service(1, health=UNSET)}, story)


def test_a_crash_loop_fails_the_deployment_with_its_exit_and_its_last_words_n16() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        loop = Behaviour(exit_after_s=1.0, exit_code=7, says=("no such table",))
        scene.machine.runtime.behaviours[image(2)] = loop
        scene.apply(plain(2))
        state = await scene.settled("failed", at_most_s=LOOP_S_MAX)
        assert "it ended again after each of 5 restarts (exit 7)" in state.message and "no such table" in state.message
        assert scene.one().image == image(1) and scene.one().running
        scene.apply(plain(3))
        await scene.settled()
        scene.apply(plain(2))
        await scene.settled("failed", at_most_s=LOOP_S_MAX)

    play(plain(), story)


@pytest.mark.parametrize(("settle", "phase"), [(UNSET, "failed"), ("1s", "converged")])
def test_without_routes_and_checks_a_component_must_live_for_its_settle_time_n16(settle: object, phase: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=2.0, exit_code=1)
        began_s = scene.loop.time()
        scene.apply(plain(2, settle=settle))
        await scene.settled(phase, at_most_s=20)
        assert phase == "failed" or scene.loop.time() - began_s >= 1.0

    play(plain(), story)


def test_a_container_that_keeps_ending_is_restarting_and_told_until_it_has_lived_for_a_while_n20() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=4.0, exit_code=137, oom=True)
        scene.apply(plain(2))
        await scene.settled()
        await until(scene.rig, lambda: reported(scene).state == "restarting", LOOP_S_MAX)
        shown = reported(scene)
        assert (shown.status, shown.last_exit) == ("unhealthy", "137 oom") and shown.restarts >= 2
        await until(scene.rig, lambda: "crash_loop" in scene.findings(), LOOP_S_MAX)
        assert "last exit 137 oom" in scene.findings()["crash_loop"]
        scene.machine.runtime._kept[scene.one().id].behaviour = Behaviour()
        await until(scene.rig, lambda: reported(scene).state == "", 200)
        assert reported(scene).status == "running" and reported(scene).restarts >= 2
        assert "crash_loop" not in scene.findings()

    play(plain(), story)


def test_a_loop_is_over_with_the_last_service_of_its_node_n20() -> None:
    """The node looks at no container any more; `status --check` failed for ever."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=4.0, exit_code=7)
        scene.apply(plain(2))
        await scene.settled()
        await until(scene.rig, lambda: "crash_loop" in scene.findings(), LOOP_S_MAX)
        scene.apply({})
        await until(scene.rig, lambda: "crash_loop" not in scene.findings(), 120)

    play(plain(), story)


@pytest.mark.parametrize("every_s", [100.0, 170.0])
def test_a_loop_of_minutes_is_restarting_and_told_without_a_gap_n16(every_s: float) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=every_s, exit_code=1)
        scene.apply(plain(2))
        await scene.settled()
        await until(scene.rig, lambda: reported(scene).state == "restarting", 2.5 * every_s)
        await until(scene.rig, lambda: "crash_loop" in scene.findings(), 2.5 * every_s)
        for _ in range(60):
            await asyncio.sleep(every_s / 10)
            assert reported(scene).state == "restarting" and "crash_loop" in scene.findings()
        scene.machine.runtime._kept[scene.one().id].behaviour = Behaviour()
        await until(scene.rig, lambda: "crash_loop" not in scene.findings(), 3 * every_s)
        assert reported(scene).state == ""

    play(plain(), story)


def test_two_ends_with_minutes_between_are_no_loop_for_ever_n16() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=400.0, exit_code=1)
        scene.apply(plain(2))
        await scene.settled()
        await until(scene.rig, lambda: reported(scene).state == "restarting", 900)
        scene.machine.runtime._kept[scene.one().id].behaviour = Behaviour()
        await until(scene.rig, lambda: reported(scene).state == "", 250)
        assert "crash_loop" not in scene.findings()

    play(plain(), story)


def test_a_loop_is_told_without_a_gap_when_its_agent_starts_again_n16() -> None:
    """Else the hub would send a recovery, and the alarm again."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=50.0, exit_code=1)
        scene.apply(plain(2))
        await scene.settled()
        await until(scene.rig, lambda: "crash_loop" in scene.findings(), 300)
        await scene.kill()
        scene.start()
        await until(scene.rig, lambda: "crash_loop" in scene.findings(), 15)
        scene.machine.runtime._kept[scene.one().id].behaviour = Behaviour()
        await until(scene.rig, lambda: "crash_loop" not in scene.findings(), 300)
        await scene.kill()
        scene.start()
        await asyncio.sleep(15)
        assert "crash_loop" not in scene.findings(), "the journal has forgotten it"

    play(plain(), story)


def test_a_container_that_ran_before_its_agent_has_settled_already() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert reported(scene).state == ""
        await asyncio.sleep(10)
        await scene.kill()
        scene.start()
        await until(scene.rig, lambda: bool(scene.ours()), 10)
        assert (reported(scene).state, reported(scene).status) == ("", "running")

    play(plain(), story)


def test_a_container_is_starting_until_it_is_judged_n20() -> None:
    async def story(scene: Scene) -> None:
        scene.machine.prober.script(image(1), Verdict(False, "not yet"))
        await until(scene.rig, lambda: bool(scene.machine.runtime._kept) and scene.one().running, 20)
        await until(scene.rig, lambda: reported(scene).state == "starting", 5)
        scene.machine.prober.script(image(1), Verdict(True))
        await scene.settled()
        assert reported(scene).state == ""

    play({"web": service()}, story)


@pytest.mark.parametrize("stops_first", [False, True])
def test_while_the_runtime_does_not_answer_a_container_is_unknown_t9(stops_first: bool) -> None:
    """Neither "starting" nor "stopped": nothing is known of it."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        if stops_first:
            scene.machine.runtime.crash(scene.one().id, 0)
        scene.machine.runtime.away = True
        await until(scene.rig, lambda: reported(scene).status == "unknown", LOOP_S_MAX)
        assert reported(scene).state == "" and "runtime_unavailable" in scene.findings()
        scene.machine.runtime.away = False
        await until(scene.rig, lambda: reported(scene).status == "running", 90)
        assert "runtime_unavailable" not in scene.findings()

    play({"web": service(1, health=UNSET)}, story)


def test_a_handshake_that_failed_for_a_route_that_did_not_stay_is_no_finding() -> None:
    """The rollout failed because of it, and its names lost their routes. That one whose route stays is looked at again
    is shown by test_simulation.py, seed 3."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        handshake = scene.machine.handshake
        ((address, _, _), *_) = handshake.asked
        handshake.troubles[address] = "certificate has expired or is not yet valid"
        scene.apply({"web": service(2, routes=(Route("http", 8080), Route("admin", 9000)))})
        state = await scene.settled("failed")
        assert "does not show the certificate" in state.message and "handshake_failed" in scene.findings()
        await until(scene.rig, lambda: "handshake_failed" not in scene.findings(), LOOP_S_MAX)

    play({"web": service(1)}, story)


def test_two_lives_in_one_second_are_not_one_life_n16() -> None:
    """Podman lists starts in whole seconds, and a look that waits for a restart does not see the container down."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.restart_s = 0.0
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=0.55, exit_code=7)
        scene.apply(plain(2, settle="1s"))
        assert "after each of 5 restarts (exit 7)" in (await scene.settled("failed", at_most_s=LOOP_S_MAX)).message

    play(plain(), story)


def test_a_look_of_long_ago_settles_nothing_n16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman answers nothing while the container ends: it was called healthy by the look at its start."""

    async def story(scene: Scene) -> None:
        runtime, answers = scene.machine.runtime, asyncio.Event()
        runtime.behaviours[image(1)] = Behaviour(exit_after_s=1.0)
        await until(scene.rig, lambda: any(one.running for one in scene.ours()))
        look = runtime.container

        async def late(id: str) -> Container | None:
            await answers.wait()
            return await look(id)

        monkeypatch.setattr(runtime, "container", late)
        await asyncio.sleep(10)
        assert scene.one().running, "as it was last seen"
        assert reported(scene).state == "starting" and reported(scene).status != "running"
        answers.set()
        await scene.settled("failed")

    play(plain(), story)


def test_one_that_another_look_finds_restarted_is_not_switched_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that answered is gone, and the one that runs now has not answered."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        runtime, inventory = scene.machine.runtime, scene.machine.built.inventory
        runtime.restart_s = 0.0
        is_alive = inventory.is_alive

        def restarted(container: Container) -> bool:
            """Just before the switch looks at it."""
            if container.image == image(2) and container.restarts == 0:
                scene.machine.prober.script(image(2), NOTHING)
                runtime.crash(container.id)
                runtime._begin(runtime._kept[container.id], restarts=1)
                inventory.add(runtime.named(container.name))
                return is_alive(runtime.named(container.name))
            return is_alive(container)

        monkeypatch.setattr(inventory, "is_alive", restarted)
        scene.apply({"web": service(2, health=UNSET)})
        assert "nothing listens there" in (await scene.settled("failed")).message
        assert scene.one().image == image(1) and scene.one().running

    play({"web": service(1, health=UNSET)}, story)
