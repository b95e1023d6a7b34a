"""What the loop that deploys has to promise, requirement by requirement: whole agents over memory, in virtual time."""

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.errors import Failed, HoldfastError
from holdfast.model.checkin import CheckIn
from holdfast.model.fleet import Node, Overlay, Volume
from holdfast.model.order import Delivered, SignedOrder
from holdfast.model.report import Report
from holdfast.ports.prober import Verdict
from tests.fleets.agents import until
from tests.fleets.build import small_fleet
from tests.fleets.deploying import Scene, image, play, service
from tests.fleets.desks import OPERATOR
from tests.scenarios import test_ordered as at_the_terminal

MUTATIONS = ("create", "start", "stop", "remove")
DATA = Volume("files", "/data", "backup")
BAD = Verdict(False, "answered 500")


def reports(said: list[CheckIn]) -> list[Report]:
    return [msgspec.json.decode(message.report, type=Report) for message in said if message.report]


def counted(scene: Scene, *verbs: str) -> int:
    return sum(call.verb in verbs for call in scene.machine.runtime.calls)


async def ordered(scene: Scene, action: str, counter: int, name: str = "web") -> SignedOrder:
    signed = scene.rig.order("w1", counter, action, target=f"service.{name}")
    await scene.rig.desk.submit(OPERATOR, signed)
    return signed


def outcomes(scene: Scene) -> dict[str, str]:
    return {view.id: view.state for view in scene.rig.desk.orders("w1", 100).orders}


# ---- one pass after the other


def test_what_is_applied_during_a_pass_is_taken_in_the_next_one_t_05_i_25() -> None:
    """T-03, T-05: while it works it follows no other revision; the first is finished, then the second is begun."""

    async def story(scene: Scene) -> None:
        scene.machine.runtime.images[image(2)] = Image(pull_s=60)
        scene.machine.prober.script(image(2), BAD, BAD, BAD, Verdict(True))
        await scene.settled()
        agent = scene.agent
        assert agent is not None
        scene.apply({"web": service(2)})
        await until(scene.rig, lambda: agent.state == "processing")
        scene.apply({"web": service(3)})
        while agent.state == "processing":
            assert agent.accepting.seen.number == 2
            await asyncio.sleep(0.25)
        assert {one.image for one in scene.ours()} == {image(2)}, "the frozen pass came to its own end"
        assert f"pull {image(3)}" not in scene.verbs("pull")
        state = await scene.settled()
        assert state.images == (image(3),) and state.applied_revision == 3
        pulled = [text for text in scene.verbs("pull") if text != f"pull {image(1)}"]
        assert pulled == [f"pull {image(2)}", f"pull {image(3)}"]

    play({"web": service()}, story)


def test_after_five_minutes_the_work_goes_on_in_its_lane_and_is_told_t_07_c_35() -> None:
    """T-07, C-35, I-39: reported as under way with its operation, never begun twice, and nobody else waits for it."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.images[image("x")] = Image(pull_s=900)
        scene.machine.link.keep = True
        agent = scene.agent
        assert agent is not None
        scene.apply({"web": service("x")})
        await until(scene.rig, lambda: agent.state == "processing")
        began_s = scene.loop.time()
        await until(scene.rig, lambda: agent.state == "idle", at_most_s=400)
        assert 295 <= scene.loop.time() - began_s <= 305
        await asyncio.sleep(5)
        newest = reports(scene.machine.link.said)[-1]
        (operation,) = newest.operations
        assert [entry.operation.id for entry in scene.machine.journal.unfinished()] == [operation]
        (web,) = newest.services
        assert (web.phase, web.step.partition(" ")[0], web.images) == ("settling", "pull", (image(1),))
        assert "processing_timeout" in {found.code for found in newest.findings}
        for n in (1, 2, 3):  # one revision after the other, while it hangs
            scene.apply({"web": service("x"), "other": service(n)})
            state = await scene.settled(name="other", at_most_s=20)
            assert state.images == (image(n),)
            await until(scene.rig, lambda: agent.state == "idle", at_most_s=5)
        await scene.settled(at_most_s=900)
        await asyncio.sleep(2)
        assert [call.subject for call in scene.machine.runtime.calls if call.verb == "pull"].count(image("x")) == 1
        assert reports(scene.machine.link.said)[-1].operations == ()
        link = scene.machine.link
        beats = [at_s for at_s, said in zip(link.said_at_s, link.said, strict=True) if said.heartbeat]
        assert max(b - a for a, b in pairwise(beats)) <= 41, "busy is not dead"

    play({"web": service()}, story)


@pytest.mark.parametrize("end", ["done", "failed", "timeout", "exception"])
def test_however_a_pass_ends_there_is_exactly_one_last_report_t_08_i_24(end: str) -> None:
    """T-08: progress is told meanwhile; the report that says "idle" again comes once, before anything else is asked."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        runtime, agent = scene.machine.runtime, scene.agent
        assert agent is not None
        await asyncio.sleep(20)
        scene.machine.link.keep = True
        runtime.images[image(2)] = Image(pull_s=700 if end == "timeout" else 2)
        if end == "failed":
            scene.machine.prober.script(image(2), BAD)
        if end == "exception":
            runtime.cut("create", trouble=ZeroDivisionError("ours"))
        scene.apply({"web": service(2)})
        await until(scene.rig, lambda: agent.state == "processing")
        asked = len(scene.machine.link.said)
        await until(scene.rig, lambda: agent.state == "idle", at_most_s=400)
        await until(scene.rig, lambda: any(m.wait_s for m in scene.machine.link.said[asked:]))
        since = scene.machine.link.said[asked:]
        before = since[: next(n for n, message in enumerate(since) if message.wait_s)]
        assert before and all(message.pulse is not None for message in before[-1:])
        told = reports(before)
        if end == "timeout":
            assert told[-1].operations, "what goes on is named"
            assert [any(f.code == "processing_timeout" for f in one.findings) for one in told].count(True) == 1
        else:
            assert [one.state for one in told].count("idle") == 1 and told[-1].state == "idle"
            (web,) = told[-1].services
            assert web.phase == {"done": "converged", "failed": "failed"}.get(end, web.phase)

    play({"web": service()}, story)


# ---- one thing at a time


@contextmanager
def intervals(scene: Scene) -> Iterator[dict[str, list[tuple[float, float]]]]:
    """When each service was being changed, by the clock of whoever asked the runtime for it."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    runtime = scene.machine.runtime

    def timed(verb: str, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(subject: Any, *more: Any) -> Any:
            seen = None if verb == "create" else await runtime.container(subject)
            name = subject.spec.service if verb == "create" else seen.service if seen is not None else ""
            began_s = scene.loop.time()
            try:
                return await real(subject, *more)
            finally:
                found[name].append((began_s, scene.loop.time()))

        return call

    for verb in MUTATIONS:
        setattr(runtime, verb, timed(verb, getattr(runtime, verb)))
    yield found


def overlaps(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> bool:
    return any(a[0] < b[1] and b[0] < a[1] for a in one for b in other if a is not b)


@pytest.mark.parametrize("seed", range(3))
def test_orders_and_passes_never_change_one_service_at_the_same_time_i_26_h_69(seed: int) -> None:
    """H-69, C-17: hammered with orders and revisions; mutations of one service form a line, two services overlap."""

    async def story(scene: Scene) -> None:
        dice = random.Random(seed)
        slow = Behaviour(start_s=0.7, stop_s=1.3)
        versions = {"web": 1, "other": 1}
        for n in range(1, 40):
            scene.machine.runtime.behaviours[image(n)] = slow
        await scene.settled()
        await scene.settled(name="other")
        with intervals(scene) as found:
            for counter in range(1, 30):
                name = dice.choice(("web", "other"))
                action = dice.choice(("restart", "stop", "start", "force-cleanup", "apply", "crash"))
                if action == "apply":
                    versions[name] += 1
                    scene.apply({each: service(version, replicas=2) for each, version in versions.items()})
                elif action == "crash":
                    for one in scene.ours():
                        scene.machine.runtime.crash(one.id, 0)
                else:
                    await ordered(scene, action, counter, name)
                await asyncio.sleep(dice.random() * 3)
            for name in versions:
                await ordered(scene, "start", 100 + len(name), name)
            for name in versions:
                await scene.settled(name=name, at_most_s=400)
        assert min(len(found["web"]), len(found["other"])) > 20
        for name in versions:
            assert not overlaps(found[name], found[name]), name
        assert overlaps(found["web"], found["other"]), "independent services do not wait for each other"
        assert len(scene.ours()) == 4 and all(one.running for one in scene.ours())

    play({"web": service(replicas=2), "other": service(replicas=2)}, story)


# ---- whose a container is


def test_every_container_says_whose_it_is_t_14() -> None:
    """T-14: the link to its deployment, the service and the component by name; the deployment is the one reported."""

    async def story(scene: Scene) -> None:
        state = await scene.settled()
        labels = scene.one().labels
        assert labels["holdfast.deployment"] == state.applied == state.serving != ""
        assert (labels["holdfast.service"], labels["holdfast.component"]) == ("web", "main")
        assert labels["holdfast.fleet"] == scene.rig.fleet_id and labels["holdfast.epoch"] == "1"

    play({"web": service()}, story)


# ---- orders


def test_an_order_takes_effect_once_however_often_it_comes_h_71() -> None:
    """H-71, H-25: the hub sends it again and again, also to the next process; the containers were restarted once."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        pid = scene.one().pid
        signed = scene.rig.order("w1", 1, "restart", target="service.web")
        again = {"attempt": 1}

        def bend(answer: Any) -> Any:
            if again["attempt"] == 60:
                return answer
            again["attempt"] += 1
            return replace(answer, orders=(*answer.orders, Delivered(again["attempt"], signed)))

        scene.machine.link.bend = bend
        await until(scene.rig, lambda: scene.one().running and scene.one().pid != pid)
        restarted = scene.one().pid
        await asyncio.sleep(60)
        await scene.kill()
        scene.start()
        await scene.settled()
        await asyncio.sleep(120)
        assert again["attempt"] > 20 and scene.one().pid == restarted
        done = [event for event in scene.machine.audited() if event[0] == "restart"]
        assert [result for _, _, result in done] == ["begun", "done"]

    play({"web": service()}, story)


@pytest.mark.parametrize("action", ["restart", "force-cleanup"])
def test_an_order_that_waited_for_the_agent_acts_on_the_containers_that_are_there(action: str) -> None:
    """T-27: a new process fetches the order before it has seen the containers of its machine."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        before = scene.one()
        await scene.kill()
        await ordered(scene, action, 1)
        for _ in range(8):
            scene.machine.runtime.cut("version")  # the first passes see no container
        scene.start()
        await until(scene.rig, lambda: "done" in outcomes(scene).values())
        await scene.settled(at_most_s=600)
        after = scene.one()
        assert after.running and after.pid != before.pid
        assert (after.id == before.id) == (action == "restart")

    play({"web": service()}, story)


def test_a_restart_during_a_deployment_that_waits_leaves_the_old_one_serving() -> None:
    """Only a deployment that serves is restarted by a stop; one that is not done yet goes on."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        old = scene.one()
        await scene.kill()
        scene.apply({"web": service(2)})
        for _ in range(50):
            scene.machine.runtime.cut("create")
        scene.start()
        await until(scene.rig, lambda: counted(scene, "create") > 1)
        await ordered(scene, "restart", 1)
        await until(scene.rig, lambda: set(outcomes(scene).values()) & {"done", "failed"} != set())
        assert scene.machine.runtime.named(old.name).pid == old.pid
        assert (await scene.settled(at_most_s=3600)).serving_revision == 2

    play({"web": service()}, story)


def test_no_order_deploys_t_28() -> None:
    """T-28: there is one way for something new to run: a revision. `deploy` is no action, and `restart` and `start`
    bring what is applied, whatever the hub would like."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        before = scene.one()
        signed = scene.rig.order("w1", 1, "deploy", target="service.web")
        with pytest.raises(HoldfastError, match="deploy"):
            await scene.rig.desk.submit(OPERATOR, signed)
        sent = [Delivered(1, signed)]
        scene.machine.link.bend = lambda answer: replace(answer, orders=(*answer.orders, *sent))
        await asyncio.sleep(60)
        sent.clear()
        assert scene.one() == before
        results = [result for action, _, result in scene.machine.audited() if action == "deploy"]
        assert results.count("done") == 1 and set(results) == {"done", "refused"}, "once, by the revision"
        applied = scene.state()
        await ordered(scene, "restart", 2)
        await until(scene.rig, lambda: "done" in outcomes(scene).values())
        await scene.settled()
        now = scene.state()
        assert applied is not None and now is not None and now.applied == applied.applied
        assert scene.one().id == before.id and counted(scene, "create") == 1

    play({"web": service()}, story)


def test_a_stopped_service_is_held_until_somebody_says_otherwise_c_30_d_18() -> None:
    """C-30, D-18, T-27: no pass starts it again, nor does a new process; it is reported; start and deploy lift it."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        await ordered(scene, "stop", 1)
        await scene.settled("held")
        assert not scene.one().running
        await asyncio.sleep(1800)
        await scene.kill()
        scene.start()
        await scene.settled("held")
        await asyncio.sleep(600)
        assert not scene.one().running
        await ordered(scene, "start", 2)
        await scene.settled()
        assert scene.one().running
        await ordered(scene, "stop", 3)
        await scene.settled("held")
        scene.apply({"web": service(2)})
        state = await scene.settled()
        assert scene.one().running and state.images == (image(2),)

    play({"web": service()}, story)


# ---- nodes that have less to do


def test_a_node_without_services_starts_no_runtime_t_34() -> None:
    async def story(scene: Scene) -> None:
        assert scene.agent is not None
        await until(scene.rig, lambda: scene.agent is not None and scene.agent.accepting.seen == scene.rig.head)
        await asyncio.sleep(1800)
        assert scene.machine.runtime.calls == [] and not scene.machine.proxy.applied
        assert scene.findings() == {}

    fleet = small_fleet({"web": service()}, ("w1", "w2"))
    off = replace(fleet.services["web"], node="w2")
    play(replace(fleet, services={"web": off}), story)


@pytest.mark.parametrize("proxy", ["none", "internal"])
def test_where_there_is_no_proxy_routes_are_neither_made_nor_looked_at_t_33(proxy: str) -> None:
    """T-32, T-33: with `proxy = "none"` no set of routes is ever handed out and a lost one is no drift."""
    fleet = small_fleet({"web": service()})
    node: Node = replace(fleet.nodes["w1"], proxy=proxy)

    async def story(scene: Scene) -> None:
        looked: list[float] = []
        routes = scene.machine.proxy.routes

        async def noted() -> Any:
            looked.append(scene.loop.time())
            return await routes()

        scene.machine.proxy.routes = noted  # type: ignore[method-assign]
        await scene.settled()
        scene.machine.proxy.lose()
        await asyncio.sleep(120)
        assert bool(looked) is (proxy != "none")
        applied = [len(one.routes) for one in scene.machine.proxy.applied]
        assert applied == ([] if proxy == "none" else [1, 1]), "made, and made again after it was lost"
        assert scene.one().running

    play(replace(fleet, nodes={"w1": node}, overlay=Overlay(encrypted=True)), story)


def test_a_node_that_loses_its_proxy_makes_containers_that_others_reach_c_24() -> None:
    """C-24, M-04: behind a proxy they answer on loopback; without one nobody could reach what stayed there."""
    fleet = small_fleet({"web": service()})
    bare: Node = replace(fleet.nodes["w1"], proxy="none", address="100.64.0.9")
    behind: Node = replace(fleet.nodes["w1"], address="100.64.0.9")

    async def story(scene: Scene) -> None:
        await scene.settled()
        assert {port.address for port in scene.one().ports} == {"127.0.0.1"}
        scene.apply(replace(fleet, nodes={"w1": bare}, overlay=Overlay(encrypted=True)))
        await scene.settled()
        await until(scene.rig, lambda: {p.address for one in scene.ours() for p in one.ports} == {"100.64.0.9"})
        assert scene.machine.proxy.listening is None
        scene.apply(replace(fleet, nodes={"w1": behind}, overlay=Overlay(encrypted=True)))
        await scene.settled()
        await until(scene.rig, lambda: {p.address for one in scene.ours() for p in one.ports} == {"127.0.0.1"})

    play(replace(fleet, nodes={"w1": behind}, overlay=Overlay(encrypted=True)), story)


# ---- an agent that is not there


def test_with_the_agent_dead_containers_serve_on_and_its_return_disturbs_nobody_h_12() -> None:
    """H-12, I-01: what is lost is the heartbeat; crashes heal by the runtime's own policy."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        before, calls = scene.one(), len(scene.machine.runtime.calls)
        routes = await scene.machine.proxy.routes()
        await scene.kill()
        await asyncio.sleep(3600)
        assert len(scene.machine.runtime.calls) == calls, "nothing was stopped on its way out"
        assert scene.machine.runtime.named(before.name) == before
        assert await scene.machine.proxy.routes() == routes
        scene.machine.runtime.crash(before.id)
        await asyncio.sleep(1)
        healed = scene.machine.runtime.named(before.name)
        assert healed.running and healed.pid != before.pid
        scene.start()
        await scene.settled()
        assert scene.one() == healed

    play({"web": service()}, story)


# ---- leaving


def test_trouble_with_the_nodes_certificate_keeps_no_service_from_being_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeper follows a revision on its own; the one with trouble tries again without a new revision."""

    def refuse(*ignored: object) -> bytes:
        raise Failed("no space left", remedy="free some space", code="disk_full")

    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.kill()
        scene.machine.runtime.power_cut()
        with monkeypatch.context() as broken:
            broken.setattr(scene.machine.issuer, "issuer", refuse)
            scene.start()
            await until(scene.rig, lambda: scene.ours() != [] and scene.one().running)
            scene.apply({"web": service(2)})
            await scene.settled()
            assert scene.findings()["certificates"] == "no space left"
        await until(scene.rig, lambda: "certificates" not in scene.findings(), 30)

    play({"web": service()}, story)


def test_an_undeploy_has_steps_and_their_results_d_24_m_46() -> None:
    """D-24, M-46, M-85: told one by one in the signed report until the next revision; the route goes before nothing
    else answers for it, the container after it."""

    async def story(scene: Scene) -> None:
        scene.machine.runtime.behaviours[image(1)] = Behaviour(stop_s=2)
        await scene.settled()
        await scene.settled(name="other")
        scene.machine.link.keep = True
        scene.apply({"other": service()})
        await until(scene.rig, lambda: all(one.service == "other" for one in scene.ours()))
        await asyncio.sleep(5)
        told = reports(scene.machine.link.said)
        while_leaving = [step.outcome for one in told for left in one.left for step in left.steps]
        assert "running" in while_leaving, "live, not only afterwards"
        (left,) = told[-1].left
        assert left.service == "web" and {step.outcome for step in left.steps} == {"done"}
        names = [step.name for step in left.steps]
        assert [name.partition(" ")[0] for name in names] == ["unroute", "drain", "stop", "remove", "unlist"]
        assert not any(state.service == "web" for state in told[-1].services)
        scene.apply({"other": service(2)})
        await scene.settled(name="other")
        await asyncio.sleep(5)
        assert reports(scene.machine.link.said)[-1].left == ()

    play({"web": service(volumes=(DATA,)), "other": service()}, story)


def test_a_step_of_an_undeploy_that_fails_is_named_and_tried_again_m_46() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.settled(name="other")
        scene.machine.link.keep = True
        scene.machine.runtime.cut("remove", trouble=Failed("device or resource busy", remedy="look who uses it"))
        scene.apply({"other": service()})
        await until(scene.rig, lambda: "service_waits" in scene.findings())
        await asyncio.sleep(0.3)
        steps = [step for one in reports(scene.machine.link.said) for left in one.left for step in left.steps]
        assert [step.name for step in steps if step.outcome == "failed" and "busy" in step.message], steps
        await until(scene.rig, lambda: all(one.service == "other" for one in scene.ours()))
        await asyncio.sleep(5)
        (left,) = reports(scene.machine.link.said)[-1].left
        assert {step.outcome for step in left.steps} == {"done"} and "service_waits" not in scene.findings()

    play({"web": service(), "other": service()}, story)


def test_what_a_rollout_waited_for_after_a_boot_is_not_reported_when_it_came_without_it() -> None:
    """After a boot the container is started and switched to while the proxy does not run yet; then the proxy comes
    with the routes that it had. Nothing is left to do, so neither the wait nor the failed step stays."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.kill()
        scene.machine.runtime.power_cut()
        is_there = scene.machine.proxy.version

        async def not_yet() -> str:
            return ""

        scene.machine.proxy.version = not_yet  # type: ignore[method-assign]
        scene.start()
        await until(scene.rig, lambda: "service_waits" in scene.findings())
        await asyncio.sleep(20)  # it is tried ever more rarely, so that the keeper of the proxy sees it first
        scene.machine.proxy.version = is_there  # type: ignore[method-assign]
        await until(scene.rig, lambda: "service_waits" not in scene.findings())
        state = await scene.settled()
        assert [step.name for step in state.steps if step.outcome == "failed"] == []

    play({"web": service()}, story)


# ---- one door


def test_commands_talk_to_the_hub_and_to_nobody_else_m_01(tmp_path: Path) -> None:
    """M-01: with the hub's line given, stopping, starting and looking open no connection; no command knows the link
    to an agent."""
    called: list[object] = []
    listening = True

    def hear(event: str, given: tuple[object, ...]) -> None:
        if listening and event in ("socket.connect", "socket.getaddrinfo"):
            called.append(given)

    sys.addaudithook(hear)  # for good: it cannot be taken away, only told to be quiet

    async def story(box: at_the_terminal.Ordering, *ignored: object) -> None:
        for words in (("stop", "web"), ("start", "web"), ("restart", "web")):
            code, said = await box.runs(*words)
            assert code == 0, (words, said)

    at_the_terminal.scene(tmp_path, story)
    listening = False
    assert called == []
    commands = Path(__file__).parents[2] / "src" / "holdfast" / "cli"
    assert [path.name for path in commands.glob("*.py") if "agent_link" in path.read_text()] == []
