"""Work of a keeper in the lane of a service: no order and no rollout is beside it (I-26)."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.agent.lanes import Lanes
from holdfast.errors import TryLater


async def in_lane(lanes: Lanes, service: str, work: Callable[[], Awaitable[None]]) -> None:
    """Goes on to its end also if the caller is cancelled."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def carried() -> None:
        try:
            await work()
        except Exception as trouble:
            if not ended.done():
                ended.set_exception(trouble)
        else:
            if not ended.done():
                ended.set_result(None)

    lanes.put(service, carried)
    await ended


def superseded() -> TryLater:
    return TryLater("another revision came", remedy="wait: it is followed now", code="superseded")
