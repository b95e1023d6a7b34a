"""A bell: one sleeper, woken once, for a reason."""

import asyncio

from holdfast.hub.nodes.long_poll import LongPoll
from tests.fleets.virtual import VirtualLoop, run


def test_the_reasons_to_wake() -> None:
    async def main(loop: VirtualLoop) -> None:
        bell = LongPoll()
        assert await bell.wait(5.0) == "over" and loop.time() == 5.0
        bell.ring()  # nobody sleeps: nothing is remembered
        sleeper = asyncio.create_task(bell.wait(5.0))
        await asyncio.sleep(1)
        assert bell.is_held
        bell.ring()
        bell.ring()
        assert await sleeper == "rung" and loop.time() == 6.0 and not bell.is_held
        first = asyncio.create_task(bell.wait(5.0))
        await asyncio.sleep(1)
        second = asyncio.create_task(bell.wait(5.0))
        assert await first == "replaced"
        assert bell.is_held, "the second still sleeps"
        assert await second == "over" and loop.time() == 12.0
        gone = asyncio.create_task(bell.wait(5.0))
        await asyncio.sleep(0.5)
        gone.cancel()
        await asyncio.sleep(0)
        assert not bell.is_held

    run(main)
