"""Ask where public hostnames lead: a warning only, as public records are made by hand elsewhere (M-80)."""

import asyncio
from collections.abc import Iterable

from holdfast.agent.traffic.edges.lane import EdgeLane
from holdfast.agent.traffic.edges.steps import EdgeConfig, EdgeSteps
from holdfast.ports.clock import Clock

PUBLIC_S = 60.0  # between two questions about one public name
AT_ONCE = 8


class PublicDns:
    def __init__(self, steps: EdgeSteps, clock: Clock) -> None:
        self._steps = steps
        self._clock = clock
        self._asked_s: dict[str, float] = {}  # by hostname, monotonic
        self.is_asking = False

    async def ask(self, lanes: Iterable[EdgeLane], config: EdgeConfig) -> None:
        self.is_asking = True
        try:
            lanes = list(lanes)
            here = {lane.hostname for lane in lanes}
            self._asked_s = {hostname: at_s for hostname, at_s in self._asked_s.items() if hostname in here}
            now_s = self._clock.monotonic_s()
            due = [
                lane
                for lane in lanes
                if config.own_public and lane.host.wanted is not None and self._is_due(lane, now_s)
            ]
            for first in range(0, len(due), AT_ONCE):
                await asyncio.gather(*(self._ask(lane, config) for lane in due[first : first + AT_ONCE]))
        finally:
            self.is_asking = False

    def _is_due(self, lane: EdgeLane, now_s: float) -> bool:
        asked_s = self._asked_s.get(lane.hostname)
        return asked_s is None or now_s - asked_s >= PUBLIC_S

    async def _ask(self, lane: EdgeLane, config: EdgeConfig) -> None:
        self._asked_s[lane.hostname] = self._clock.monotonic_s()
        found = await self._steps.public_addresses(lane.hostname)
        if found is not None:
            lane.tell_public("" if config.own_public in found else ", ".join(found) or "nowhere")
