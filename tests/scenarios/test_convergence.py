"""I-23: any desired state after any other is reached in finite passes, and then nothing is done any more."""

import asyncio
from collections.abc import Mapping

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour, Image
from holdfast.errors import Failed
from holdfast.model.fleet import Component, Route, Service, Volume
from holdfast.ports.prober import Verdict
from tests.fleets.agents import services_of, until
from tests.fleets.build import small_fleet
from tests.fleets.deploying import HEALTH, Scene, image, play

CHANGING = ("pull", "create", "start", "stop", "remove", "run")
GOOD = ("1", "2", "3")
BAD = ("sick", "broken", "missing")


@st.composite
def components(draw: st.DrawFn, name: str) -> Component:
    version = draw(st.sampled_from((*GOOD, *GOOD, *BAD)))
    data = draw(st.booleans())
    return Component(
        name,
        image(version),
        env=draw(st.sampled_from(({}, {"A": "1"}, {"A": "2"}))),
        volumes=(Volume(f"{name}-files", "/data", "none"),) if data else (),
        routes=(Route(f"{name}-http", 8080),),
        replicas=1 if data else draw(st.integers(1, 3)),
        health=HEALTH if draw(st.booleans()) else UNSET,
    )


@st.composite
def services(draw: st.DrawFn) -> Service:
    names = draw(st.sampled_from((("app",), ("app", "db"), ("db", "app", "job"))))
    return Service(tuple(draw(components(name)) for name in names), active=draw(st.sampled_from((True, True, False))))


fleets = st.dictionaries(st.sampled_from(("blog", "shop", "wiki")), services(), max_size=3)


def misbehave(scene: Scene) -> None:
    runtime = scene.machine.runtime
    runtime.images[image("missing")] = Image(trouble=Failed("manifest unknown", remedy="push it"))
    runtime.behaviours[image("broken")] = Behaviour(exit_after_s=0.01, exit_code=1)
    for version in ("sick", "broken"):
        scene.machine.prober.script(image(version), Verdict(False, "ill"))


async def at_rest(scene: Scene, wanted: Mapping[str, Service]) -> None:
    head = scene.rig.head

    def rests() -> bool:
        agent = scene.agent
        assert agent is not None
        states = {one.service: one.phase for one in services_of(agent).section().services}
        calm = not agent.lanes.is_working and agent.accepting.seen == head
        return calm and states.keys() == wanted.keys() and "settling" not in states.values()

    await until(scene.rig, rests, 120)
    await until(scene.rig, lambda: all(one.service in wanted for one in scene.ours()), 60)


def check(scene: Scene, wanted: Mapping[str, Service]) -> None:
    """What runs is what is wanted, or what served before where that failed; nothing else of ours is here."""
    assert scene.agent is not None
    for state in services_of(scene.agent).section().services:
        record = services_of(scene.agent).records.of(state.service)
        here = [one for one in scene.ours() if one.service == state.service]
        serving = record.serving
        if state.phase == "held":
            assert not any(one.running for one in here)
            continue
        assert state.phase in ("converged", "failed")
        slots = (
            {(p.spec.component, r, p.digest) for p in serving.parts for r in range(p.replicas)} if serving else set()
        )
        assert {(one.component, one.replica, one.spec) for one in here} == slots
        bad = any(c.image in {image(name) for name in BAD} for c in wanted[state.service].components)
        assert bad or state.phase == "converged", "only what is bad may fail"


def kept_in_place(env: dict[str, str]) -> dict[str, Service]:
    """A service whose container is replaced in place."""
    data = (Volume("app-files", "/data", "none"),)
    return {"blog": Service((Component("app", image("1"), env=env, volumes=data, routes=(Route("app-http", 8080),)),))}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=st.lists(fleets, min_size=1, max_size=4), crash=st.integers(0, 3))
@example(history=[kept_in_place({}), kept_in_place({"A": "1"})], crash=1)  # killed while it waits for health
def test_any_desired_after_any_other_converges_and_then_rests_i_23(
    history: list[dict[str, Service]], crash: int
) -> None:
    async def story(scene: Scene) -> None:
        misbehave(scene)
        for number, wanted in enumerate(history):
            fleet = small_fleet({"base": 1, **wanted})
            if number == 0 or fleet != small_fleet({"base": 1, **history[number - 1]}):
                scene.apply(replace(fleet, settings=replace(fleet.settings, removals_max=10)))
            if number == crash:  # the machine loses power in the middle of it
                await asyncio.sleep(0.3)
                await scene.kill()
                scene.machine.runtime.power_cut()
                scene.start()
            named = {"base": fleet.services["base"], **wanted}
            await at_rest(scene, named)
            check(scene, named)
            scene.machine.runtime.calls.clear()
            await asyncio.sleep(45)
            assert scene.verbs(*CHANGING) == [], "at rest nothing is done"

    play(small_fleet({"base": 2}), story)


def test_a_killed_agent_does_nothing_more() -> None:
    """Otherwise two agents work on one machine after every crash of a story, which no state directory allows."""

    async def story(scene: Scene) -> None:
        scene.machine.runtime.behaviours[image("1")] = Behaviour(start_s=1.0)
        scene.apply(small_fleet({"base": 1, **kept_in_place({})}))
        assert scene.agent is not None
        lanes = scene.agent.lanes
        await until(scene.rig, lambda: bool(scene.verbs("start") and lanes.running))
        await scene.kill()
        scene.machine.runtime.power_cut()
        assert not lanes.running
        scene.machine.runtime.calls.clear()
        await asyncio.sleep(45)
        assert scene.machine.runtime.calls == []

    play(small_fleet({"base": 1}), story)
