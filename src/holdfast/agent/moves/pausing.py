"""How long a node of a move waits for the word of the other one."""

import asyncio
from collections.abc import Awaitable, Callable

LOOK_S, LATER_S = 0.2, 2.0
SOON = 300  # looks


class Pause:
    """Short at first; after a minute the other node is away. `wait` may end earlier than it is told."""

    def __init__(self, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._wait = wait
        self._looks = 0

    async def over(self) -> None:
        self._looks += 1
        await self._wait(LOOK_S if self._looks <= SOON else LATER_S)
