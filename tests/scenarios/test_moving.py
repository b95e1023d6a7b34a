"""Hub and agents together: what is drained or fails over is never gone, and ends up where it belongs, once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour
from holdfast.agent.agent import Agent
from holdfast.errors import Unreachable
from holdfast.model.fleet import Health, Service, Volume
from holdfast.planning.drain import plan_drain
from tests.fleets.agents import Machine, kill, services_of, until
from tests.fleets.build import signed, small_fleet, small_service
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop, run

WEB = "service.web"
HEALTH = Health("http", path="/health", port=8080, start_period="8s")
NODES = ("w1", "w2", "w3")


def web(**changed: Any) -> Service:
    plain = small_service("web")
    return replace(plain, components=(replace(plain.components[0], health=HEALTH),), **changed)


class Scene:
    def __init__(self, loop: VirtualLoop, service: Service) -> None:
        self.rig = Rig(loop, small_fleet({"web": service}, NODES))
        self.machines = {name: Machine(self.rig, name) for name in NODES}
        self.agents: dict[str, Agent] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.gone_s: float | None = None

    def start(self, node: str) -> None:
        self.agents[node] = self.machines[node].start()
        self.tasks[node] = asyncio.ensure_future(self.agents[node].run())

    async def kill(self, node: str) -> None:
        """As by a power cut: agent and containers."""
        await kill(self.agents[node], self.tasks[node])
        self.machines[node].runtime.power_cut()

    async def running(self) -> dict[str, int]:
        found = {}
        for name, machine in self.machines.items():
            alive = [one for one in await machine.runtime.containers() if one.running]
            if alive:
                found[name] = len(alive)
        return found

    async def runs_on(self, **nodes: int) -> None:
        """Exactly there, within a while."""
        end_s = self.rig.loop.time() + 300
        while await self.running() != nodes:
            assert self.rig.loop.time() < end_s, await self.running()
            await asyncio.sleep(0.1)

    def apply(self, service: Service) -> None:
        self.rig.commit(small_fleet({"web": service}, NODES))

    def drain(self, node: str) -> None:
        applied = self.rig.hub.applied()
        assert applied is not None
        self.rig.hub.commit(signed(plan_drain(node, applied, self.rig.desk.observations())))
        self.rig.desk.committed()

    async def watch(self) -> None:
        """Notes the first moment at which nobody ran it."""
        while True:
            if not await self.running() and self.gone_s is None:
                self.gone_s = self.rig.loop.time()
            await asyncio.sleep(0.05)


def scene(service: Service, story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        made = Scene(loop, service)
        hub = asyncio.ensure_future(made.rig.desk.run())
        for node in NODES:
            made.start(node)
        await made.runs_on(w1=1)
        await asyncio.sleep(30)
        await story(made)
        for task in (hub, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(hub, *made.tasks.values(), return_exceptions=True)

    run(main)


def test_a_drained_service_is_never_gone_and_ends_up_in_one_place() -> None:
    async def story(made: Scene) -> None:
        watching = asyncio.ensure_future(made.watch())
        made.drain("w1")
        await made.runs_on(w2=1)
        await asyncio.sleep(120)
        assert await made.running() == {"w2": 1} and made.gone_s is None
        (one,) = [c for c in await made.machines["w2"].runtime.containers() if c.running]
        assert one.labels["holdfast.epoch"] == "2"
        watching.cancel()

    scene(web(), story)


def test_a_move_that_fails_leaves_the_old_one_serving_until_a_later_one_works() -> None:
    async def story(made: Scene) -> None:
        watching = asyncio.ensure_future(made.watch())
        image = web().components[0].image
        made.machines["w2"].runtime.behaviours[image] = Behaviour(start_trouble="no such command")
        made.drain("w1")
        await until(
            made.rig, lambda: any(s.phase == "failed" for s in services_of(made.agents["w2"]).section().services), 200
        )
        await asyncio.sleep(300)
        assert await made.running() == {"w1": 1}
        found = {f.code for f in made.rig.desk.status_findings()}
        assert "still_moving" in found and "orphan" not in found
        made.machines["w2"].runtime.behaviours.clear()
        made.apply(replace(web(), components=(replace(web().components[0], env={"TRY": "2"}),)))
        await made.runs_on(w2=1)
        assert made.gone_s is None
        watching.cancel()

    scene(web(), story)


def test_an_agent_that_restarts_on_the_way_still_serves_until_it_is_released() -> None:
    async def story(made: Scene) -> None:
        watching = asyncio.ensure_future(made.watch())
        made.machines["w2"].link.down = Unreachable("cut", remedy="wait")
        made.drain("w1")
        await asyncio.sleep(30)
        made.tasks["w1"].cancel()
        await asyncio.sleep(1)
        made.start("w1")
        await asyncio.sleep(60)
        assert await made.running() == {"w1": 1}
        made.machines["w2"].link.down = None
        await made.runs_on(w2=1)
        assert made.gone_s is None
        watching.cancel()

    scene(web(), story)


def test_a_removed_service_goes_at_once() -> None:
    async def story(made: Scene) -> None:
        made.rig.commit(small_fleet({}, NODES))
        await asyncio.sleep(30)
        assert await made.running() == {}

    scene(web(), story)


def test_a_power_cut_is_bridged_by_the_listed_node_and_undone_when_home_serves_again() -> None:
    async def story(made: Scene) -> None:
        await made.kill("w1")
        died_s = made.rig.loop.time()
        await made.runs_on(w3=1)
        assert made.rig.loop.time() - died_s <= 115
        (state,) = services_of(made.agents["w3"]).section().services
        assert state.standby
        await asyncio.sleep(600)
        assert await made.running() == {"w3": 1}
        watching = asyncio.ensure_future(made.watch())
        made.start("w1")
        await made.runs_on(w1=1)
        await asyncio.sleep(120)
        assert await made.running() == {"w1": 1} and made.gone_s is None, "back without a gap"
        watching.cancel()

    scene(web(node="w1", failover=("w3", "w2")), story)


def test_a_node_runs_nothing_that_its_signed_manifest_does_not_list() -> None:
    """A hub names whatever it likes; only what operators signed as standby of this node is run."""

    async def story(made: Scene) -> None:
        made.machines["w2"].link.bend = lambda answer: replace(answer, standby=(WEB, "service.other", "node.w2"))
        await asyncio.sleep(120)
        assert await made.running() == {"w1": 1}
        made.machines["w3"].link.bend = lambda answer: replace(answer, standby=(WEB,))
        await made.runs_on(w1=1, w3=1)
        assert await made.running() == {"w1": 1, "w3": 1}, "listed: that much a hub may choose (design.md §3)"

    scene(web(node="w1", failover=("w3",)), story)


def test_what_has_data_is_never_kept_running_beside_anything() -> None:
    """A pin that is changed for a service with data is refused by the planner; whatever left goes at once."""
    main = replace(web().components[0], volumes=(Volume("data", "/data", "backup"),))
    with_data = replace(web(), components=(main,), node="w1")

    async def story(made: Scene) -> None:
        made.rig.commit(small_fleet({}, NODES))
        await asyncio.sleep(60)
        assert await made.running() == {}

    scene(with_data, story)
