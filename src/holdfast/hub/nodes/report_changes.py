"""Wake clients that wait for a node to report something new."""

import asyncio

from holdfast.hub.nodes.member import Member
from holdfast.model.node_view import NodeNews

SLEEPERS_MAX = 256  # a client beyond that is answered at once, and has to pause before it asks again


class ReportChanges:
    """Belongs to the event loop. Counts up from the wall clock, so that numbers of an earlier hub process are lower."""

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

    def reported(self, member: Member) -> None:
        self.note(member.name)

    def due(self, loop_s: float) -> float | None:
        return None

    async def after(self, at: int, wait_s: float) -> NodeNews:
        """Hold until something is newer. A client with a number of another hub process has to read all nodes."""
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
