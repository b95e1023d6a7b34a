"""Keep every service of this node as the manifest in force says, with or without a hub (H-23).

A pass works stage by stage (T-06), several services at once, one change at a time for each of them in its lane.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from holdfast.agent.keeper import Act, Hints, Revision
from holdfast.agent.services.data.asides import LOOK_S
from holdfast.agent.services.data.retired import Retired
from holdfast.agent.services.pacing import Pause
from holdfast.agent.services.passes import Passes
from holdfast.agent.services.records import Records
from holdfast.agent.services.rest import Rest
from holdfast.agent.services.status import ServicesReport, Status
from holdfast.agent.services.wanted import Wanted
from holdfast.errors import HoldfastError

DEAF_S = 1.0  # after the runtime could not be asked for events


class Services:
    name = "services"

    def __init__(
        self,
        *,
        wanted: Wanted,
        passes: Passes,
        rest: Rest,
        status: Status,
        retired: Retired,
        records: Records,
        acts: Mapping[str, Act],
    ) -> None:
        self._wanted = wanted
        self._passes = passes
        self._rest = rest
        self._retired = retired
        self.status = status
        self.records = records
        self.acts = acts

    def follow(self, revision: Revision) -> None:
        self._wanted.follow(revision)
        self._retired.follow(revision)
        self._rest.begin_again()

    def hinted(self, hints: Hints) -> None:
        is_new, is_released = self._wanted.hinted(hints, self.records.services())
        if is_new:
            self._rest.begin_again()
        elif is_released:
            self._rest.wake()

    def section(self) -> ServicesReport:
        return self.status.section()

    async def settled(self) -> None:
        await self._rest.settled()

    async def run(self) -> None:
        self._rest.begin()
        while True:
            try:
                pause = await self._pass()
            finally:
                self._rest.end_pass()
                self.status.tell_rest()
            await self._rest.until(self._next(pause))

    async def _pass(self) -> Pause:
        wanted = self._wanted.read()
        if wanted is None:
            return Pause()
        self._wanted.note()
        await self._retired.look()
        if not self._passes.is_needed(wanted):
            self._passes.none_needed()
            return Pause()
        return await self._passes.once(wanted, self._wanted.released)

    def _next(self, pause: Pause) -> Callable[[], Awaitable[object]]:
        """What ends the rest, besides the bell. Also a node without services may have data, which it looks at."""
        wanted = self._wanted.read()
        is_needed = wanted is not None and self._passes.is_needed(wanted)
        return partial(self._stirred, pause) if is_needed else partial(asyncio.sleep, LOOK_S)

    async def _stirred(self, pause: Pause) -> None:
        """Until something happened to a container, or it is time to look anyway."""
        if pause.deaf:
            await asyncio.sleep(pause.at_most_s)
            return
        try:
            await self._passes.stirred(pause.at_most_s)
        except HoldfastError:
            await asyncio.sleep(DEAF_S)
