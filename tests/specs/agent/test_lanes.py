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
