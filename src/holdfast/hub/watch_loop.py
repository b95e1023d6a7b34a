"""The loop that watches the fleet: sleep until the next silence or watcher is due, then look."""

import asyncio

from holdfast.hub.alerts.alarms import Alarms
from holdfast.hub.finding_log import FindingLog
from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.liveness import LOOK_S_MAX, Liveness
from holdfast.hub.watched_fleet import WatchedFleet

LOOK_S_MIN = 0.05


class WatchLoop:
    """`wake` ends its sleep early."""

    def __init__(
        self,
        *,
        fleet: WatchedFleet,
        liveness: Liveness,
        alarms: Alarms,
        log: FindingLog,
        time: HubTime,
        wake: asyncio.Event,
    ) -> None:
        self._fleet = fleet
        self._liveness = liveness
        self._alarms = alarms
        self._log = log
        self._time = time
        self._wake = wake

    async def run(self) -> None:
        """Until cancelled."""
        self._fleet.attend()
        self._alarms.begin(self._fleet.applied())
        self._wake.clear()
        try:
            self._liveness.call_all()
            while True:
                next_s = self._look()
                await self._sleep(next_s - self._time.loop_s())
        finally:
            self._alarms.close()
            self._liveness.remember()

    def _look(self) -> float:
        """Returns when to look again."""
        next_s = self._liveness.look(self._time.loop_s())
        if not self._time.is_warm and self._liveness.is_settled(self._time.loop_s()):
            self._end_warm_up()
        due_s = self._fleet.due(self._time.loop_s())
        if self._time.is_warm:  # before that, what nodes have not said yet would be a finding
            next_s = min(next_s, self._log.due(self._time.loop_s()))
        return next_s if due_s is None else min(next_s, due_s)

    def _end_warm_up(self) -> None:
        self._time.end_warm_up()
        self._liveness.warmed_up()

    async def _sleep(self, at_most_s: float) -> None:
        try:
            async with asyncio.timeout(min(max(at_most_s, LOOK_S_MIN), LOOK_S_MAX)):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
