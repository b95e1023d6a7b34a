"""A hub and an agent over memory: what is applied runs, what fails leaves the old serving, what leaves goes away."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.runtime import memory
from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.errors import Failed
from holdfast.model.container import Container
from holdfast.model.fleet import Hooks, Node, Service, Volume
from holdfast.ports.prober import Verdict
from tests.fleets.agents import services_of, until
from tests.fleets.build import small_fleet
from tests.fleets.deploying import Scene, component, image, play, service

BAD = Verdict(False, "answered 500")
DATA = Volume("files", "/data", "none")


def test_what_is_applied_runs_and_is_reported_m_09_t_01() -> None:
    async def story(scene: Scene) -> None:
        state = await scene.settled()
        assert state.serving == state.applied and state.applied_revision == state.serving_revision == 1
        one = scene.one()
        assert one.running and one.labels["holdfast.service"] == "web" and one.labels["holdfast.epoch"] == "1"
        assert one.labels["holdfast.deployment"] == state.applied
        names = [step.name.split()[0] for step in state.steps]
        assert names == ["pull", "create", "start", "healthy", "certificate", "switch"]
        assert {step.outcome for step in state.steps} == {"done"}

    play({"web": service()}, story)


def test_an_update_never_stops_the_old_before_the_new_is_healthy_x_1() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        old = scene.one()
        scene.machine.prober.script(image(2), BAD, BAD, BAD, Verdict(True))
        scene.machine.runtime.calls.clear()
        scene.apply({"web": service(2)})
        state = await scene.settled()
        new = scene.one()
        assert new.id != old.id and state.images == (image(2),)
        order = [step.name for step in state.steps]
        assert order.index("healthy main 0") < order.index("switch") < order.index("stop old main 0")
        assert scene.verbs("start", "stop", "remove") == [f"start {new.name}", f"stop {old.name}", f"remove {old.name}"]

    play({"web": service()}, story)


@pytest.mark.parametrize("how", ["no image", "never healthy", "exits at once", "cannot start"])
def test_a_failed_update_leaves_the_old_one_untouched_and_is_not_tried_again_x_3(how: str) -> None:
    """I-21, M-46: the step is named; design §1: not retried until a new revision or a restart."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        old = scene.one()
        runtime = scene.machine.runtime
        if how == "no image":
            runtime.images[image(2)] = Image(trouble=Failed("manifest unknown", remedy="push it"))
        elif how == "never healthy":
            scene.machine.prober.script(image(2), BAD)
        elif how == "exits at once":
            scene.machine.prober.script(image(2), BAD)
            runtime.behaviours[image(2)] = Behaviour(exit_after_s=0.01, exit_code=1, says=("no such table",))
        else:
            runtime.behaviours[image(2)] = Behaviour(start_trouble="exec format error")
        scene.apply({"web": service(2)})
        state = await scene.settled("failed")
        assert scene.one() == old, "same container, same process"
        assert (state.applied_revision, state.serving_revision) == (2, 1) and state.images == (image(1),)
        wanted = {"no image": "pull", "cannot start": "start"}.get(how, "healthy")
        assert state.step.startswith(wanted) and state.message and state.remedy
        assert [step.name for step in state.steps if step.outcome == "failed"] == [state.step]
        assert ("holdfast restart web" in state.remedy) != ("deploy again" in state.remedy), "what starts it again"
        if how == "exits at once":
            assert "no such table" in state.message
        assert "rollout_failed" in scene.findings()
        calls = len(scene.verbs("pull", "create", "start"))
        await asyncio.sleep(300)
        assert len(scene.verbs("pull", "create", "start")) == calls, "not tried again by itself"
        assert scene.one() == old
        scene.apply({"web": service(3)})
        await scene.settled()
        assert "rollout_failed" not in scene.findings()

    play({"web": service()}, story)


def test_a_first_deploy_that_fails_leaves_nothing_behind() -> None:
    async def story(scene: Scene) -> None:
        scene.machine.prober.script(image(1), BAD)
        state = await scene.settled("failed")
        assert scene.ours() == [] and state.serving == "" and "answered 500" in state.message

    play({"web": service()}, story)


def test_data_is_checkpointed_and_never_has_two_writers_c_30() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        old = scene.one()
        scene.machine.storage.contents["web"]["files/book"] = b"written"
        scene.machine.runtime.calls.clear()
        scene.apply({"web": service(2, volumes=(DATA,))})
        state = await scene.settled()
        names = [step.name for step in state.steps]
        assert names.index("stop old main 0") < names.index("checkpoint main") < names.index("start main 0")
        assert scene.verbs("stop", "start")[0] == f"stop {old.name}"
        (kept,) = scene.machine.storage.checkpoints()
        assert kept.service == "web" and scene.machine.journal.is_scratch(kept.path)

    play({"web": service(volumes=(DATA,))}, story)


def test_a_failed_update_with_data_starts_the_old_one_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        old = scene.one()
        scene.machine.prober.script(image(2), BAD)
        scene.apply({"web": service(2, volumes=(DATA,))})
        state = await scene.settled("failed")
        now = scene.one()
        assert (now.id, now.running) == (old.id, True) and state.images == (image(1),)

    play({"web": service(volumes=(DATA,))}, story)


@pytest.mark.parametrize("exit_after_s", [7.9, 7.95, 8.0])
def test_one_that_crashes_as_its_start_period_ends_is_stopped_before_the_old_one_writes_again(
    exit_after_s: float,
) -> None:
    """The runtime restarts it 0.15 s later, whatever the agent decided meanwhile."""
    _crashes_and_goes_back(exit_after_s)


def test_one_that_the_runtime_restarts_late_is_stopped_before_the_old_one_writes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy machine needs longer for a restart than the agent waits for one."""
    monkeypatch.setattr(memory, "RESTART_S", 3.0)
    _crashes_and_goes_back(0.5)


def _crashes_and_goes_back(exit_after_s: float) -> None:
    """The new container is stopped before the old one is started again."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        old, runtime = scene.one(), scene.machine.runtime
        runtime.behaviours[image(2)] = Behaviour(exit_after_s=exit_after_s, exit_code=1)
        scene.machine.prober.script(image(2), BAD)
        runtime.calls.clear()
        scene.apply({"web": service(2, volumes=(DATA,))})
        await scene.settled("failed")
        (new,) = {call.subject for call in runtime.calls if call.verb == "create"}
        assert scene.verbs("stop", "start", "remove") == [
            f"stop {old.name}", f"start {new}", f"stop {new}", f"start {old.name}", f"remove {new}"
        ]  # fmt: skip
        assert (scene.one().id, scene.one().running) == (old.id, True)

    play({"web": service(volumes=(DATA,))}, story)


def test_if_one_component_fails_no_component_is_changed() -> None:
    """Both new ones are proven before either old one goes."""

    def pair(front: int, back: int) -> dict[str, Service]:
        return {"web": Service((component(f"front-{front}", "front"), component(f"back-{back}", "back")))}

    async def story(scene: Scene) -> None:
        await scene.settled()
        before = scene.ours()
        scene.machine.prober.script(image("back-2"), BAD)
        scene.apply(pair(2, 2))
        await scene.settled("failed")
        assert scene.ours() == before

    play(pair(1, 1), story)


def test_replicas_are_added_and_taken_away() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert [one.replica for one in scene.ours()] == [0, 1, 2]
        first = {one.replica: one.id for one in scene.ours()}
        scene.apply({"web": service(replicas=2)})
        await scene.settled()
        assert {one.replica: one.id for one in scene.ours()} == {0: first[0], 1: first[1]}

    play({"web": service(replicas=3)}, story)


def test_only_the_component_that_changed_is_replaced() -> None:
    def pair(front: int) -> dict[str, Service]:
        return {"web": Service((component(front, "front"), component("b", "back")))}

    async def story(scene: Scene) -> None:
        await scene.settled()
        before = {one.component: one.id for one in scene.ours()}
        scene.apply(pair(2))
        await scene.settled()
        after = {one.component: one.id for one in scene.ours()}
        assert after["back"] == before["back"] and after["front"] != before["front"]

    play(pair(1), story)


def test_undeployed_means_containers_gone_data_kept_and_listed_c_08_m_85() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.settled(name="other")
        scene.machine.storage.contents["web"]["files/a"] = b"mine"
        scene.apply({"other": service()})
        await until(scene.rig, lambda: all(one.service == "other" for one in scene.ours()))
        assert scene.agent is not None
        await until(scene.rig, lambda: bool(scene.agent and services_of(scene.agent).section().retired))
        (left,) = services_of(scene.agent).section().retired
        assert (left.name, left.removed_in) == ("web", 2) and left.files == 1
        assert services_of(scene.agent).records.services() == ["other"]

    play({"web": service(volumes=(DATA,)), "other": service()}, story)


def test_what_ends_by_itself_is_started_again_t_06() -> None:
    """Exit 0 is nobody's crash: podman leaves it, the agent does not (stage 2); ever more slowly if it goes on."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        one = scene.one()
        scene.machine.runtime.crash(one.id, 0)
        await until(scene.rig, lambda: scene.one().running, at_most_s=3)
        assert scene.one().id == one.id
        for _ in range(8):
            scene.machine.runtime.crash(one.id, 0)
            await asyncio.sleep(5)
        started = len(scene.verbs("start"))
        assert started < 9, "backed off"
        await until(scene.rig, lambda: scene.one().running, at_most_s=90)

    play({"web": service()}, story)


def test_after_a_power_cut_the_agent_starts_everything_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        before = scene.one().id
        await scene.kill()
        scene.machine.runtime.power_cut()
        scene.start()
        await scene.settled()
        await until(scene.rig, lambda: scene.one().running)
        assert scene.one().id == before

    play({"web": service()}, story)


def test_somebody_elses_containers_are_reported_and_left_alone_c_05_t_15() -> None:
    async def story(scene: Scene) -> None:
        theirs = Container("f" * 64, "theirs", "running", True, image="postgres", pid=77)
        scene.machine.runtime.place(theirs)
        await scene.settled()
        await asyncio.sleep(30)
        assert scene.machine.runtime.named("theirs") == theirs
        assert scene.agent is not None
        shown = [one for one in services_of(scene.agent).section().containers if one.orphan]
        assert [(one.service, one.status) for one in shown] == [("theirs", "running")]
        assert all("theirs" not in call.subject for call in scene.machine.runtime.calls)

    play({"web": service()}, story)


def test_labels_alone_make_no_container_ours_w_10() -> None:
    """One that carries our labels but that the journal does not know is not removed when its service leaves."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        forged = Container("e" * 64, "forged", "running", True, dict(scene.one().labels), "x", 78)
        scene.machine.runtime.place(replace(forged, labels={**forged.labels, "holdfast.service": "gone"}))
        await asyncio.sleep(30)
        assert scene.machine.runtime.named("forged").running

    play({"web": service()}, story)


@pytest.mark.parametrize("policy", ["stop", "remove"])
def test_orphans_are_stopped_or_removed_where_the_node_says_so_c_05(policy: str) -> None:
    fleet = small_fleet({"web": service()})
    node = replace(fleet.nodes["w1"], orphans=policy, orphans_foreign=True)

    async def story(scene: Scene) -> None:
        scene.machine.runtime.place(Container("f" * 64, "theirs", "running", True, image="x", pid=77))
        scene.machine.runtime.place(
            Container("d" * 64, "proxy", "running", True, {"holdfast.infrastructure": "proxy"}, "x", 79)
        )
        await scene.settled()
        await until(scene.rig, lambda: not any(c.name == "theirs" and c.running for c in _all(scene)), 60)
        assert ("theirs" in [one.name for one in _all(scene)]) == (policy == "stop")
        assert scene.machine.runtime.named("proxy").running, "node infrastructure is nobody's orphan (I-35, D-17)"

    play(replace(fleet, nodes={"w1": node}), story)


def _all(scene: Scene) -> list[Container]:
    assert scene.agent is not None
    return list(scene.machine.built.inventory.all())


def test_an_observing_node_touches_nothing_and_says_what_differs_c_04() -> None:
    fleet = small_fleet({"web": service()})
    watching = replace(fleet, nodes={"w1": Node("w1", ("worker",), reconcile="observe")})

    async def story(scene: Scene) -> None:
        await until(scene.rig, lambda: "drift" in scene.findings())
        await asyncio.sleep(60)
        assert scene.ours() == [] and scene.verbs("pull", "create", "start", "stop", "remove") == []

    play(watching, story)


def test_a_lost_journal_adopts_exactly_what_is_wanted() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        before = scene.one()
        await scene.kill()
        scene.machine.journal = type(scene.machine.journal)()
        scene.start()
        await scene.settled()
        assert scene.one() == before, "nothing was restarted"

    play({"web": service()}, story)


def test_a_runtime_that_is_away_is_told_and_waited_for() -> None:
    async def story(scene: Scene) -> None:
        scene.machine.runtime.away = True
        await until(scene.rig, lambda: "runtime_unavailable" in scene.findings(), 60)
        scene.machine.runtime.away = False
        await scene.settled(at_most_s=90)
        assert "runtime_unavailable" not in scene.findings()

    play({"web": service()}, story)


def test_a_taken_port_is_passed_over() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        port = scene.one().ports[0].outside
        await scene.kill()
        scene.machine.runtime.taken.add(port)
        scene.apply({"web": service(2)})
        scene.start()
        state = await scene.settled()
        assert state.images == (image(2),) and scene.one().ports[0].outside != port

    play({"web": service()}, story)


def test_hooks_run_once_in_the_new_image_and_a_failing_one_stops_the_rollout() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert scene.verbs("run") == []
        hooks = Hooks(("migrate",), ("warm",))
        scene.apply({"web": service(2, hooks=hooks)})
        state = await scene.settled()
        names = [step.name for step in state.steps]
        assert names.index("pre_deploy main") < names.index("create main 0")
        assert names.index("post_deploy main") > names.index("switch")
        assert len(scene.verbs("run")) == 2
        await scene.kill()
        scene.start()
        await scene.settled()
        await asyncio.sleep(60)
        assert len(scene.verbs("run")) == 2, "once per deployment, also after a restart of the agent"
        scene.machine.runtime.behaviours[("migrate",)] = Behaviour(exit_after_s=0.1, exit_code=3, says=("locked",))
        serving = scene.one()
        scene.apply({"web": service(3, hooks=hooks)})
        state = await scene.settled("failed")
        assert state.step == "pre_deploy main" and "locked" in state.message and scene.one() == serving

    play({"web": service()}, story)


def test_a_crash_of_the_agent_after_any_call_ends_with_exactly_one_copy_i_28_r_01() -> None:
    """Cut before and after every call that changes something, during an update with data, then started again."""

    def run(at: int) -> bool:
        done = False

        async def story(scene: Scene) -> None:
            nonlocal done
            await scene.settled()
            scene.machine.runtime.calls.clear()
            count = 0
            enter = scene.machine.runtime._enter

            def counted(verb: str, subject: str) -> None:
                nonlocal count
                enter(verb, subject)
                if verb in ("pull", "create", "start", "stop", "remove"):
                    count += 1
                    if count == at:
                        scene.tasks[-1].cancel()
                        raise asyncio.CancelledError

            scene.machine.runtime._enter = counted  # type: ignore[method-assign]
            scene.apply({"web": service(2, volumes=(DATA,))})
            await asyncio.sleep(20)
            done = count < at
            scene.machine.runtime._enter = enter  # type: ignore[method-assign]
            if not done:
                scene.start()
            state = await scene.settled(at_most_s=60)
            assert state.images == (image(2),) and scene.one().running

        play({"web": service(volumes=(DATA,))}, story)
        return done

    at = 1
    while not run(at):
        at += 1
    assert at > 5, "every change was cut once"


def test_a_full_disk_is_told_at_once_keeps_the_old_serving_and_is_got_over_r_05() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        old = scene.one()
        journal = scene.machine.journal
        begin = journal.begin

        def full(*given: object, **named: object) -> bool:
            raise Failed("no space is left on the disk", remedy="free some: df", code="no_space")

        journal.begin = full  # type: ignore[method-assign]
        scene.apply({"web": service(2)})
        state = await scene.settled("failed", at_most_s=10)
        assert state.code == "no_space" and scene.one() == old and state.serving_revision == 1
        journal.begin = begin  # type: ignore[method-assign]
        state = await scene.settled(at_most_s=90)
        assert state.images == (image(2),)

    play({"web": service()}, story)


def test_a_new_process_that_sets_routes_again_writes_nothing_down() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        operations = len(scene.machine.journal.entries())
        await scene.kill()
        scene.machine.proxy.lose()
        scene.start()
        await scene.settled()
        await until(scene.rig, lambda: len(scene.machine.proxy.applied) == 2)
        assert len(scene.machine.journal.entries()) == operations

    play({"web": service()}, story)


def test_nothing_is_called_converged_before_the_first_look() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.kill()
        scene.machine.runtime.power_cut()
        scene.machine.runtime.away = True
        scene.start()
        await asyncio.sleep(5)
        state = scene.state()
        assert state is None or state.phase == "settling"

    play({"web": service()}, story)


def test_drift_is_found_by_subsystem_and_told_once_t_09_t_12() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        said = [fields["subsystems"] for name, fields in scene.machine.said if name == "drift"]
        assert said == [["containers"], []], "missing at first, then at rest"
        scene.machine.proxy.lose()
        await asyncio.sleep(15)
        said = [fields["subsystems"] for name, fields in scene.machine.said if name == "drift"]
        assert said[2:] == [["routes"]] and len(scene.machine.proxy.applied) == 2

    play({"web": service()}, story)


def test_no_rollout_pulls_because_another_one_asks_anew() -> None:
    """Seen with thirty at once on podman: one forgot an image that the other had just been told of, and pulled it."""

    class Forgetful(set[str]):
        def add(self, element: str) -> None:
            """Whatever is noted here is forgotten at once by somebody else."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        assert scene.agent is not None
        images = scene.machine.built.images
        images.known = Forgetful()
        asked = [images.here({scene.one().image, "nobody/has:this"}) for _ in range(3)]
        assert await asyncio.gather(*asked) == [{scene.one().image}] * 3

    play({"web": service()}, story)


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_node_changes_as_many_services_at_a_time_as_the_fleet_says(parallel: int) -> None:
    fleet = small_fleet({name: service() for name in ("a", "b", "c")})

    async def story(scene: Scene) -> None:
        scene.machine.runtime.images[image(1)] = Image(pull_s=60)
        await until(scene.rig, lambda: scene.verbs("pull") != [])
        await asyncio.sleep(5)
        assert len(scene.verbs("pull")) == parallel

    play(replace(fleet, settings=replace(fleet.settings, parallel=parallel)), story)


def test_while_the_proxy_loads_the_routes_of_a_service_the_next_one_has_its_place() -> None:
    """Issue 14, speed: podman had nothing to do meanwhile, and each service made a set of its own."""
    names = ("a", "b", "c", "d")
    fleet = small_fleet({name: service() for name in names})

    async def story(scene: Scene) -> None:
        proxy = scene.machine.proxy
        apply = proxy.apply

        async def slow(*words: Any) -> None:
            await asyncio.sleep(1.0)
            await apply(*words)

        proxy.apply = slow  # type: ignore[assignment, method-assign]
        for name in names:
            await scene.settled(name=name)
        assert len(proxy.applied) == 2, "the first, and the others together"

    play(replace(fleet, settings=replace(fleet.settings, parallel=1)), story)
