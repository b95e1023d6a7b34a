"""On real podman: desired states converge and then rest (I-23); two containers never write into one volume at once."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from holdfast.adapters.prober.network import NetworkProber
from holdfast.adapters.process import process
from holdfast.adapters.runtime.podman.runtime import Podman
from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.model.fleet import Component, Health, Route, Service, Volume
from tests.fleets.agents import services_of, until
from tests.fleets.build import small_fleet
from tests.fleets.counts import SOAK
from tests.fleets.deploying import Scene
from tests.fleets.podman import IMAGE, ThrowAway, throw_away

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

SEEDS = range(20 if SOAK else 1)
STEPS = 6 if SOAK else 2
GOOD = Health("exec", cmd=("true",), start_period="5s")
ILL = Health("exec", cmd=("false",), start_period="2s")


def component(draw: random.Random, name: str) -> Component:
    """Well, never healthy, ending at once, or of an image nobody has."""
    kind = draw.choice(("well", "well", "well", "sick", "broken", "missing"))
    data = draw.random() < 0.4
    return Component(
        name,
        "localhost/nobody-has-this:1" if kind == "missing" else IMAGE,
        cmd=("sh", "-c", "exit 3") if kind == "broken" else ("sh", "-c", f"sleep {draw.choice((1000, 2000))}"),
        volumes=(Volume(f"{name}-files", "/data", "none"),) if data else (),
        routes=(Route(f"{name}-http", 8080),),
        replicas=1 if data else draw.randint(1, 2),
        health=ILL if kind == "sick" else GOOD,
    )


def fleet(draw: random.Random) -> dict[str, Service]:
    found = {}
    for name in draw.sample(("blog", "shop", "wiki"), draw.randint(0, 2)):
        parts = tuple(component(draw, part) for part in draw.choice((("app",), ("app", "db"))))
        found[name] = Service(parts, active=draw.random() < 0.9)
    return found


BASE = Service((Component("main", IMAGE, cmd=("sleep", "1000"), health=GOOD),))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_wanted_is_reached_in_podman_and_then_nothing_is_done(seed: int, tmp_path: Path) -> None:
    with throw_away() as node:
        node.load_busybox()
        node.podman("run", "--detach", "--name", "theirs", "--network", "none", IMAGE, "sleep", "3000")
        asyncio.run(_story(random.Random(seed), node, tmp_path))
        assert node.inspect("theirs")["State"]["Running"] is True  # type: ignore[index]


@asynccontextmanager
async def _scene(node: ThrowAway, folder: Path, services: dict[str, Service]) -> AsyncIterator[Scene]:
    podman = Podman(None, node.run_dir, environ=node.environ, command=node.command)
    scene = Scene(cast(Any, asyncio.get_running_loop()), services)
    machine: Any = scene.machine
    machine.runtime, machine.prober = podman, NetworkProber(podman.exec)
    machine.storage, machine.data_dir = DirectoryStorage(str(folder), "w1"), str(folder)
    try:
        async with scene:
            yield scene
    finally:
        await podman.close()


async def _story(draw: random.Random, node: ThrowAway, folder: Path) -> None:
    async with _scene(node, folder, {"base": BASE}) as scene:
        before: dict[str, Service] = {}
        for _ in range(STEPS):
            wanted = fleet(draw)
            if wanted != before:
                whole = small_fleet({"base": BASE, **wanted})
                scene.apply(replace(whole, settings=replace(whole.settings, removals_max=10)))
            before = wanted
            if draw.random() < 0.4:
                await asyncio.sleep(draw.random() * 2)
                await scene.kill()
                scene.start()
            await _at_rest(scene, {"base": BASE, **wanted})
            await _check(scene, node)


async def _at_rest(scene: Scene, wanted: dict[str, Service]) -> None:
    head = scene.rig.head

    def rests() -> bool:
        agent = scene.agent
        assert agent is not None
        states = {one.service: one.phase for one in services_of(agent).section().services}
        calm = not agent.lanes.is_working and agent.accepting.seen == head
        gone = all(one.service in wanted for one in scene.ours())
        return calm and gone and states.keys() == wanted.keys() and "settling" not in states.values()

    await until(scene.rig, rests, 90)


async def _check(scene: Scene, node: ThrowAway) -> None:
    """By podman's own word: exactly what serves is there, and two seconds later it is still the same containers."""
    assert scene.agent is not None
    wanted = set()
    for state in services_of(scene.agent).section().services:
        serving = services_of(scene.agent).records.of(state.service).serving
        if serving is not None and state.phase != "held":
            wanted |= {(state.service, p.spec.component, str(n)) for p in serving.parts for n in range(p.replicas)}
    form = '{{.ID}} {{index .Labels "holdfast.service"}} {{index .Labels "holdfast.component"}} '
    form += '{{index .Labels "holdfast.replica"}} {{.State}}'
    words = ("ps", "--no-trunc", "--filter", "label=holdfast.service", "--format", form)
    rows = [line.split() for line in node.podman(*words).splitlines()]
    assert {tuple(row[1:4]) for row in rows if row[4] == "running"} == wanted
    await asyncio.sleep(2)
    assert [line.split() for line in node.podman(*words).splitlines()] == rows


# $0 is how long it lives. It releases the lock before it ends, so a lock that is taken proves two processes.
WRITER = (
    "trap 'rm -r /data/lock; exit 1' TERM; echo $0 >>/data/starts; mkdir /data/lock || echo $0 >>/data/overlaps;"
    " sleep $0 & wait; rm -r /data/lock; exit 1"
)
HELD_S = 2.5  # a restart by podman takes so long on a very busy machine


def writer(life: str, health: str) -> dict[str, Service]:
    check = Health("exec", cmd=("sh", "-c", health), start_period="5s")
    volumes = (Volume("files", "/data", "none"),)
    return {"base": Service((Component("db", IMAGE, cmd=("sh", "-c", WRITER, life), volumes=volumes, health=check),))}


def _signal_supervisors(node: ThrowAway, number: signal.Signals) -> None:
    """Conmon notices a crash and lets podman restart the container; frozen, it does so late."""
    for one in process.with_argument("cleanup"):
        if str(node.root) in str(process.arguments(one.pid)):
            process.send(one, number)


def test_a_crashed_one_that_podman_restarts_late_never_writes_beside_the_old_one(tmp_path: Path) -> None:
    async def story(node: ThrowAway) -> None:
        old = writer("1000", "exit 0")
        async with _scene(node, tmp_path, old) as scene:
            await _at_rest(scene, old)
            scene.apply(writer("0.5", "exit 1"))
            await until(scene.rig, lambda: "0.5" in starts.read_text(), 30)
            _signal_supervisors(node, signal.SIGSTOP)
            await asyncio.sleep(HELD_S)
            _signal_supervisors(node, signal.SIGCONT)
            await _at_rest(scene, old)
            state = scene.state("base")
            assert state is not None and state.phase == "failed"

    starts = tmp_path / "base" / "files" / "starts"
    with throw_away() as node:
        node.load_busybox()
        asyncio.run(story(node))
    assert not (starts.parent / "overlaps").exists()
    assert starts.read_text().split()[-1] == "1000"
