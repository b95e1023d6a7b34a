"""After a boot of the machine, services with data wait for the hub; services without data do not."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.booting.keeper import UNCONFIRMED, WAIT_S_MAX
from holdfast.errors import Unreachable
from holdfast.model.cadence import FAST, NORMAL, Cadence
from holdfast.model.fleet import Service, Volume
from holdfast.model.report import NodeFinding
from tests.fleets.agents import Machine
from tests.fleets.build import small_fleet
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_moving import NODES, Scene, web

DATA = (Volume("book", "/book", protect="backup"),)
AWAY = Unreachable("the hub is away", remedy="wait", code="unreachable")


def notes() -> Service:
    plain = web()
    return replace(plain, components=(replace(plain.components[0], volumes=DATA),))


class Booting(Scene):
    def __init__(self, loop: VirtualLoop, service: Service, pace: Cadence) -> None:
        super().__init__(loop, service)
        self.rig = Rig(loop, small_fleet({"web": service}, NODES), pace)
        self.machines = {name: Machine(self.rig, name) for name in NODES}

    def starts(self) -> int:
        return sum(call.verb == "start" for call in self.machines["w1"].runtime.calls)

    def boot(self) -> None:
        """The machine of w1 starts again, and its agent with it."""
        self.machines["w1"].hardware.booted += " again"
        self.start("w1")

    def unconfirmed(self) -> list[NodeFinding]:
        return [one for one in self.agents["w1"].findings.all() if one.code == UNCONFIRMED]


def scene(service: Service, story: Callable[[Booting], Coroutine[Any, Any, None]], pace: Cadence = NORMAL) -> None:
    async def main(loop: VirtualLoop) -> None:
        made = Booting(loop, service, pace)
        hub = asyncio.ensure_future(made.rig.desk.run())
        made.start("w1")
        await made.runs_on(w1=1)
        await asyncio.sleep(30)
        await made.kill("w1")
        await story(made)
        for task in (hub, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(hub, *made.tasks.values(), return_exceptions=True)

    run(main)


def test_an_answer_of_the_hub_lets_it_start_at_once() -> None:
    async def story(made: Booting) -> None:
        made.boot()
        await asyncio.sleep(3)
        assert await made.running() == {"w1": 1} and made.unconfirmed() == []

    scene(notes(), story)


def test_a_hub_that_is_away_is_waited_for_and_then_it_starts_unconfirmed() -> None:
    async def story(made: Booting) -> None:
        made.machines["w1"].link.down = AWAY
        made.boot()
        await asyncio.sleep(WAIT_S_MAX - 2)
        assert await made.running() == {}
        await asyncio.sleep(4)
        assert await made.running() == {"w1": 1}
        (found,) = made.unconfirmed()
        assert found.address == "service.web" and "30 s" in found.message and "holdfast node show w1" in found.remedy
        made.machines["w1"].link.down = None
        await asyncio.sleep(90)
        assert made.unconfirmed() == [] and await made.running() == {"w1": 1}

    scene(notes(), story)


def test_a_service_without_data_does_not_wait() -> None:
    async def story(made: Booting) -> None:
        made.machines["w1"].link.down = AWAY
        made.boot()
        await asyncio.sleep(3)
        assert await made.running() == {"w1": 1}
        await asyncio.sleep(60)
        assert made.unconfirmed() == []

    scene(web(), story)


def test_another_start_of_the_agent_is_no_boot() -> None:
    async def story(made: Booting) -> None:
        made.machines["w1"].link.down = AWAY
        made.start("w1")
        await asyncio.sleep(3)
        assert await made.running() == {"w1": 1} and made.unconfirmed() == []

    scene(notes(), story)


def test_an_agent_that_dies_while_it_waits_waits_again_and_one_that_dies_later_does_not() -> None:
    async def story(made: Booting) -> None:
        made.machines["w1"].link.down = AWAY
        made.boot()
        await asyncio.sleep(10)
        await made.kill("w1")
        made.start("w1")
        await asyncio.sleep(WAIT_S_MAX - 2)
        assert await made.running() == {}
        await asyncio.sleep(4)
        assert await made.running() == {"w1": 1}
        await made.kill("w1")
        made.start("w1")
        await asyncio.sleep(3)
        assert await made.running() == {"w1": 1} and len(made.unconfirmed()) == 1, "no hub confirmed it since the boot"

    scene(notes(), story)


def test_a_fast_pace_waits_shorter() -> None:
    async def story(made: Booting) -> None:
        made.machines["w1"].link.down = AWAY
        made.boot()
        await asyncio.sleep(2)
        assert await made.running() == {}
        await asyncio.sleep(3)
        assert await made.running() == {"w1": 1} and len(made.unconfirmed()) == 1

    scene(notes(), story, pace=FAST)


@pytest.mark.parametrize("is_removed", [False, True])
def test_what_was_removed_meanwhile_never_starts(is_removed: bool) -> None:
    async def story(made: Booting) -> None:
        before = made.starts()
        if is_removed:
            made.rig.commit(small_fleet({}, NODES))
        made.machines["w1"].link.down = AWAY
        made.boot()
        await asyncio.sleep(10)
        made.machines["w1"].link.down = None
        await asyncio.sleep(60)
        assert made.starts() == before + (not is_removed)
        assert await made.running() == ({} if is_removed else {"w1": 1})

    scene(notes(), story)


def test_a_boot_that_cannot_be_told_from_another_one_counts_as_new() -> None:
    async def story(made: Booting) -> None:
        made.machines["w1"].link.down = AWAY
        made.machines["w1"].hardware.booted = ""
        for _ in range(2):
            made.start("w1")
            await asyncio.sleep(WAIT_S_MAX - 2)
            assert await made.running() == {}
            await asyncio.sleep(4)
            assert await made.running() == {"w1": 1}
            await made.kill("w1")

    scene(notes(), story)
