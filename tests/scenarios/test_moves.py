"""Hub and agents together: a service moves with its data; one copy runs at any time, and nothing is lost."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.model.fleet import Fleet, Service, Volume
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_abort, plan_move
from tests.fleets.agents import Machine
from tests.fleets.build import signed, small_fleet
from tests.fleets.desks import Rig, key_of
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_moving import NODES, Scene, web

DATA = (Volume("book", "/book", protect="backup"),)


def notes(**changed: Any) -> Service:
    plain = web(**changed)
    return replace(plain, components=(replace(plain.components[0], volumes=DATA),))


def keyed(service: Service) -> Fleet:
    """Its nodes have joined."""
    made = small_fleet({"web": service}, NODES)
    return replace(made, nodes={name: replace(node, key=key_of(name).line) for name, node in made.nodes.items()})


class Moving(Scene):
    def __init__(self, loop: VirtualLoop, service: Service) -> None:
        self.rig = Rig(loop, keyed(service))
        self.machines = {name: Machine(self.rig, name) for name in NODES}
        self.agents, self.tasks, self.gone_s = {}, {}, None
        self.passage = MemoryTarget()
        self.both_s: float | None = None
        for machine in self.machines.values():
            machine.backups = replace(machine.backups, passage=self.passage)

    def write(self, node: str, text: bytes) -> None:
        self.machines[node].storage.contents["web"]["book/page"] = text

    def page(self, node: str) -> bytes | None:
        return self.machines[node].storage.contents.get("web", {}).get("book/page")

    def commit(self, plan: Any) -> None:
        self.rig.hub.commit(signed(plan))
        self.rig.desk.committed()

    def move(self, target: str) -> None:
        applied = self.rig.hub.applied()
        assert applied is not None
        self.commit(plan_move(Wish("web", target), applied, self.rig.desk.observations()))

    def abort(self) -> None:
        applied = self.rig.hub.applied()
        assert applied is not None
        self.commit(plan_abort("web", applied))

    async def watch_two(self) -> None:
        while True:
            if len(await self.running()) > 1:
                self.both_s = self.rig.loop.time()
            await asyncio.sleep(0.05)


def scene(story: Callable[[Moving], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        made = Moving(loop, notes())
        hub = asyncio.ensure_future(made.rig.desk.run())
        for node in NODES:
            made.start(node)
        await made.runs_on(w1=1)
        made.write("w1", b"first")
        await asyncio.sleep(30)
        watching = asyncio.ensure_future(made.watch_two())
        await story(made)
        assert made.both_s is None, "two copies ran at once"
        for task in (watching, hub, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(watching, hub, *made.tasks.values(), return_exceptions=True)

    run(main)


def test_a_service_moves_with_its_data() -> None:
    async def story(made: Moving) -> None:
        made.move("w2")
        await made.runs_on(w2=1)
        assert made.page("w2") == b"first" and made.page("w1") == b"first", "the source keeps its copy"
        await asyncio.sleep(120)
        assert await made.running() == {"w2": 1}
        (one,) = [c for c in await made.machines["w2"].runtime.containers() if c.running]
        assert one.labels["holdfast.epoch"] == "2"

    scene(story)


def test_what_is_written_during_the_copy_arrives_too() -> None:
    async def story(made: Moving) -> None:
        made.move("w2")
        made.write("w1", b"second")
        await made.runs_on(w2=1)
        assert made.page("w2") == b"second"

    scene(story)


def test_a_target_that_is_dead_leaves_the_service_running_and_an_abort_brings_it_back() -> None:
    async def story(made: Moving) -> None:
        await made.kill("w2")
        made.move("w2")
        await asyncio.sleep(300)
        assert await made.running() == {"w1": 1}
        made.abort()
        await asyncio.sleep(60)
        assert await made.running() == {"w1": 1} and made.page("w1") == b"first"
        (one,) = [c for c in await made.machines["w1"].runtime.containers() if c.running]
        assert one.labels["holdfast.epoch"] == "3"
        made.start("w2")
        await asyncio.sleep(120)
        assert await made.running() == {"w1": 1}

    scene(story)


def test_a_source_that_dies_on_the_way_goes_on_when_it_is_back() -> None:
    async def story(made: Moving) -> None:
        made.move("w2")
        await asyncio.sleep(0.25)
        await made.kill("w1")
        await asyncio.sleep(60)
        made.start("w1")
        await made.runs_on(w2=1)
        assert made.page("w2") == b"first"

    scene(story)


def test_back_again_and_the_old_copy_is_not_touched() -> None:
    async def story(made: Moving) -> None:
        made.move("w2")
        await made.runs_on(w2=1)
        made.write("w2", b"newer")
        await asyncio.sleep(60)
        applied = made.rig.hub.applied()
        assert applied is not None
        made.commit(plan_move(Wish("web", "w1", aside=True), applied, made.rig.desk.observations()))
        await made.runs_on(w1=1)
        assert made.page("w1") == b"newer"
        aside = [files for name, files in made.machines["w1"].storage.contents.items() if name.startswith(".aside")]
        assert [files["book/page"] for files in aside] == [b"first"]

    scene(story)
