"""Whose word is another one than before: whoever waits for a node's next word sleeps here instead of asking again."""

import asyncio

from holdfast.model.checkin import NodeNews

SLEEPERS_MAX = 256  # whoever comes on top is answered at once, and has to pause himself


class ReportChanges:
    """Belongs to the event loop. Counts on from the wall clock, so that numbers of a hub before this one are lower."""

    def __init__(self, now_s: float) -> None:
        self._first = self._at = int(now_s * 1000)
        self._changed: dict[str, int] = {}
        self._sleepers: set[asyncio.Future[None]] = set()

    def note(self, node: str) -> None:
        self._at += 1
        self._changed[node] = self._at
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    async def after(self, at: int, wait_s: float) -> NodeNews:
        """Held for as long as nothing is newer. Whoever knows a number that is not ours has to look at everybody."""
        if at == self._at and len(self._sleepers) < SLEEPERS_MAX:
            await self._sleep(wait_s)
        known = self._first <= at <= self._at
        names = tuple(sorted(name for name, noted in self._changed.items() if noted > at)) if known else ()
        return NodeNews(self._at, names, not known)

    async def _sleep(self, wait_s: float) -> None:
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.add(sleeper)
        try:
            async with asyncio.timeout(wait_s):
                await sleeper
        except TimeoutError:
            return
        finally:
            self._sleepers.discard(sleeper)
