"""Lanes: bounded, serial within, parallel across; one that fails does not stop the next."""

import asyncio

import pytest

from holdfast.agent.lanes import WAITING_MAX, Lanes
from holdfast.errors import Limited
from tests.fleets.virtual import VirtualLoop, run


def test_a_lane_has_room_for_so_many_and_then_says_later() -> None:
    async def scene(loop: VirtualLoop) -> None:
        lanes = Lanes()
        for _ in range(WAITING_MAX):
            lanes.check_room("web")
            lanes.put("web", lambda: asyncio.sleep(1))
        with pytest.raises(Limited):
            lanes.check_room("web")
        lanes.check_room("db")
        assert not await lanes.quiet(5)
        assert await lanes.quiet(WAITING_MAX)
        lanes.check_room("web")

    run(scene)


def test_the_order_within_a_lane_is_the_order_of_arrival_and_a_failure_is_only_its_own() -> None:
    async def scene(loop: VirtualLoop) -> None:
        lanes = Lanes(parallel=2)
        seen: list[int] = []

        def work(number: int, wait_s: float) -> None:
            async def done() -> None:
                await asyncio.sleep(wait_s)
                seen.append(number)
                if number == 1:
                    raise RuntimeError("one fails")

            lanes.put("web", done)

        for number, wait_s in enumerate((3.0, 1.0, 2.0, 0.0)):
            work(number, wait_s)
        tasks = list(lanes.running)
        assert await lanes.quiet(100)
        assert seen == [0, 1, 2, 3]
        assert [str(task.exception()) for task in tasks if task.exception()] == ["one fails"]

    run(scene)


def test_no_more_lanes_at_once_than_places() -> None:
    async def scene(loop: VirtualLoop) -> None:
        lanes = Lanes(parallel=3)
        now = most = 0

        async def work() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(1)
            now -= 1

        for number in range(10):
            lanes.put(f"lane-{number}", work)
        assert await lanes.quiet(100) and most == 3

    run(scene)


def test_an_operation_that_stops_something_waits_for_those_who_hold_its_lane_shared() -> None:
    async def story() -> None:
        lanes, said, ending = Lanes(), list[str](), asyncio.Event()

        async def run(name: str) -> None:
            async with lanes.shared("web"):
                said.append(f"{name} begins")
                await ending.wait()
                said.append(f"{name} ends")

        async def rollout() -> None:
            said.append("rollout begins")
            await lanes.alone("web")
            said.append("stop")
            await asyncio.sleep(0.01)
            said.append("start")

        first, second = asyncio.ensure_future(run("a")), asyncio.ensure_future(run("b"))
        await asyncio.sleep(0)
        lanes.put("web", rollout)
        await asyncio.sleep(0.01)
        assert said == ["a begins", "b begins", "rollout begins"] and lanes.is_awaited("web")
        late = asyncio.ensure_future(run("c"))
        await asyncio.sleep(0.01)
        async with lanes.shared("db"):
            assert "c begins" not in said, "it would begin between stop and start; another service is free"
        ending.set()
        await asyncio.wait_for(asyncio.gather(first, second, late), 5)
        assert said[3:] == ["a ends", "b ends", "stop", "start", "c begins", "c ends"]
        assert not lanes.is_awaited("web")

    asyncio.run(story())


def test_while_an_operation_waits_to_be_alone_other_lanes_have_its_place() -> None:
    async def story() -> None:
        lanes, done = Lanes(parallel=1), asyncio.Event()

        async def waits() -> None:
            await lanes.alone("web")

        async def works() -> None:
            done.set()

        async with lanes.shared("web"):
            lanes.put("web", waits)
            lanes.put("db", works)
            await asyncio.wait_for(done.wait(), 5)
        assert await lanes.quiet(5)

    asyncio.run(story())


def test_an_operation_that_fails_or_is_cancelled_opens_its_lane_again() -> None:
    async def story() -> None:
        lanes = Lanes()

        async def fails() -> None:
            await lanes.alone("web")
            raise RuntimeError

        lanes.put("web", fails)
        await lanes.quiet(5)
        async with asyncio.timeout(5), lanes.shared("web"):
            lanes.put("web", fails)
            await asyncio.sleep(0.01)
            for task in list(lanes.running):
                task.cancel()
            await asyncio.sleep(0.01)
            async with lanes.shared("web"):
                pass

    asyncio.run(story())


def test_outside_of_an_operation_nothing_is_closed() -> None:
    async def story() -> None:
        lanes = Lanes()
        async with lanes.shared("web"):
            await asyncio.wait_for(lanes.alone("web"), 5)
        assert not lanes.is_awaited("web")

    asyncio.run(story())
