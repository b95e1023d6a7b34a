"""The order verbs against a whole agent: the command waits in its own thread, hub and agent live in an event loop."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli import main
from holdfast.model.node_view import NodesAnswer
from holdfast.model.order import SignedOrder
from holdfast.model.order_view import OrderView
from holdfast.model.report import Report
from tests.fleets.agents import Machine, services_of
from tests.fleets.build import ALICE, ALICE_SIGNER, operator_signer, small_fleet
from tests.fleets.desks import OPERATOR, Rig
from tests.fleets.tools import HUB, Box

BOB, BOB_SIGNER = operator_signer("bob", "apply")


class Wire:
    """The hub's desk from another thread."""

    def __init__(self, rig: Rig, loop: asyncio.AbstractEventLoop) -> None:
        self._rig, self._loop = rig, loop
        for name in ("applied", "records", "links", "blob", "observations", "damaged", "status"):
            setattr(self, name, getattr(rig.hub, name))

    def nodes(self) -> NodesAnswer:
        return self._rig.desk.nodes()

    def submit(self, order: SignedOrder) -> str:
        return asyncio.run_coroutine_threadsafe(self._rig.desk.submit(OPERATOR, order), self._loop).result(60)

    def orders(self, node: str = "", limit: int = 20) -> Sequence[OrderView]:
        return self._rig.desk.orders(node or None, limit).orders


class RealTime:
    def __init__(self, rig: Rig) -> None:
        self.now_s = rig.clock.now_s

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Ordering(Box):
    async def runs(self, *words: str) -> tuple[int, str]:
        argv = [*words, "--fleet", self.fresh(), "--hub", HUB, "--yes", "--timeout", "20s"]
        code = await asyncio.to_thread(main.run, argv, self)
        return code, self.out.getvalue() + self.err.getvalue()


Story = Callable[[Ordering, Machine, Callable[[], Awaitable[list[str]]]], Awaitable[None]]


def scene(home: Path, story: Story) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        rig = Rig(loop, small_fleet({"web": 1}, ("w1",), (ALICE, BOB)))
        machine = Machine(rig, "w1")
        machine.storage.contents["old"] = {"a": b"only copy"}
        agent = machine.start()
        tasks = [asyncio.ensure_future(rig.desk.run()), asyncio.ensure_future(agent.run())]

        async def running() -> list[str]:
            return [one.id for one in await machine.runtime.containers() if one.running]

        async with asyncio.timeout(60):
            while not (
                services_of(agent).section().services and services_of(agent).section().services[0].phase == "converged"
            ):
                await asyncio.sleep(0.02)
        await story(Ordering(home, Wire(rig, loop), RealTime(rig)), machine, running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_service_is_stopped_started_restarted_and_cleaned_up_by_order(tmp_path: Path) -> None:
    """C-30, T-27: what the node signed for is what the command says."""

    async def story(box: Ordering, machine: Machine, running: Callable[[], Awaitable[list[str]]]) -> None:
        box.by = BOB_SIGNER
        (first,) = await running()
        code, said = await box.runs("stop", "web")
        assert (code, await running()) == (0, []) and "w1: stop service.web done" in said and "signed by w1" in said
        code, said = await box.runs("start", "web")
        assert code == 0 and len(await running()) == 1, said
        code, said = await box.runs("restart", "web", "--json")
        assert code == 0 and len(await running()) == 1, said
        assert json.loads(said)["orders"][0]["result"]["verified"]
        code, said = await box.runs("force-cleanup", "web")
        assert code == 0, said
        async with asyncio.timeout(60):
            while not await running():
                await asyncio.sleep(0.05)
        assert await running() != [first], "made anew"

    scene(tmp_path, story)


def phase_told(box: Ordering) -> str:
    """What the hub was last told of web; nobody looks at the agent itself."""
    (view,) = box.wire.nodes().nodes
    return msgspec.json.decode(view.report, type=Report).services[0].phase


def test_the_hub_hears_when_a_stopped_service_has_come_to_rest_c_30(tmp_path: Path) -> None:
    """The last step of an order is told while its lane is still busy; that it is over must be told too."""

    async def story(box: Ordering, machine: Machine, running: Callable[[], Awaitable[list[str]]]) -> None:
        for verb, phase in (("stop", "held"), ("start", "converged"), ("restart", "converged")):
            code, said = await box.runs(verb, "web")
            assert code == 0, said
            async with asyncio.timeout(4):  # a heartbeat is further away
                while phase_told(box) != phase:
                    await asyncio.sleep(0.05)

    scene(tmp_path, story)


def test_data_is_purged_by_an_order_of_grade_destroy_and_by_no_other(tmp_path: Path) -> None:
    async def story(box: Ordering, machine: Machine, running: Callable[[], Awaitable[list[str]]]) -> None:
        box.by = BOB_SIGNER
        code, said = await box.runs("purge", "old", "-n", "w1")
        assert code == 4 and "holdfast order sign" in said and "old" in machine.storage.contents
        box.by = ALICE_SIGNER
        code, said = await box.runs("purge", "web", "-n", "w1")
        assert code == 3 and "holdfast undeploy web" in said
        code, said = await box.runs("purge", "old", "-n", "w1")
        assert code == 0 and "signed by w1" in said, said
        assert "old" not in machine.storage.contents and len(await running()) == 1

    scene(tmp_path, story)
