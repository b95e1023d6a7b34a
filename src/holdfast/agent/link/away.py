"""Wait until the next try to reach the hub; end the wait early when a hub that was away is there again (M-74).

No request is sent meanwhile: requests wait 1, 2, 4 … 60 s (M-52). A look is a TCP connection that is closed at once.
"""

import asyncio

from holdfast.agent.backoff import Backoff
from holdfast.ports.fleet_link import FleetLink

LOOK_S = 2.0
COME_S = 1.5  # all nodes see the hub at about the same time: they come spread over this


async def wait(pause_s: float, link: FleetLink, pause: Backoff) -> None:
    """A hub that is there and still gives no good answer is not asked sooner: only one that was seen to be away."""
    loop = asyncio.get_running_loop()
    end_s, was_away = loop.time() + pause_s, False
    while True:
        await asyncio.sleep(min(pause.near(LOOK_S), end_s - loop.time()))
        if loop.time() >= end_s:
            return
        if not await link.is_there():
            was_away = True
            continue
        left_s = max(0.0, end_s - loop.time())
        await asyncio.sleep(min(pause.part(COME_S), left_s) if was_away else left_s)
        return
