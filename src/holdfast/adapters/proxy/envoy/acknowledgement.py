"""Wait until the running Envoy reports the written versions, or the reason it refused them. Time-limited."""

import asyncio
from collections.abc import Mapping

from holdfast.adapters.process.process import Process
from holdfast.adapters.proxy.envoy.admin import Admin, down
from holdfast.adapters.proxy.envoy.process import EnvoyProcess, rejection
from holdfast.errors import Failed, TryLater

ACKNOWLEDGED_S = 10.0
BACK_S = 2.0
LOOK_S = 0.002
WARMING = "listener_manager.total_listeners_warming"


def lacking(expected: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in expected.items() if versions.get(name) != version}


class Acknowledgement:
    """For one set: the process and the end of its log when the first file of the set was written."""

    def __init__(self, admin: Admin, process: EnvoyProcess) -> None:
        self._admin = admin
        self._process = process
        self._envoy: Process | None = process.envoy()
        self._log = process.log_size()
        self.was_ignored = False  # the time was over: Envoy neither loaded the set nor refused it

    async def of(self, expected: Mapping[str, str]) -> None:
        until_s = _now_s() + ACKNOWLEDGED_S
        left: Mapping[str, str] = expected
        while _now_s() < until_s:
            try:
                left = lacking(expected, await self._admin.versions())
            except TryLater:
                self._check_alive()
            if not left:
                return
            if why := rejection(self._process.log_since(self._log)):
                raise refused(why)
            self._check_alive()
            await asyncio.sleep(LOOK_S)
        raise self._ignored(sorted(left)[0])

    def _ignored(self, what: str) -> TryLater:
        self.was_ignored = True
        return TryLater(
            f"the proxy of this node did not load new routes within {ACKNOWLEDGED_S:g} s ({what}) and keeps the "
            "previous ones",
            remedy="if it does not load the next ones either, the agent restarts it automatically; if this persists, "
            "read proxy/envoy.log in the agent's state directory",
            code="proxy_down",
        )

    async def of_listeners(self) -> None:
        """Changed listeners wait for certificates and request routes before they become active."""
        until_s = _now_s() + ACKNOWLEDGED_S
        while _now_s() < until_s:
            if (await self._admin.gauges(f"^{WARMING}$")).get(WARMING) == 0:
                return
            await asyncio.sleep(LOOK_S)
        raise self._ignored(WARMING)

    async def of_the_one_before(self, expected: Mapping[str, str]) -> None:
        """Best effort: the next apply verifies the state again."""
        until_s = _now_s() + BACK_S
        while _now_s() < until_s and self._process.envoy() is not None:
            try:
                if not lacking(expected, await self._admin.versions()):
                    return
            except TryLater:
                return
            await asyncio.sleep(LOOK_S)

    def _check_alive(self) -> None:
        if self._process.envoy() != self._envoy:
            raise down("it ended while its routes were being updated")


def _now_s() -> float:
    """The loop's time: the wait is for a process, which a virtual clock does not move."""
    return asyncio.get_running_loop().time()


def refused(why: str) -> Failed:
    return Failed(
        f"the proxy refused the new routes and keeps the previous ones: {why}",
        remedy="report this, and attach proxy/envoy.log from the agent's state directory",
        code="proxy_refused",
    )
