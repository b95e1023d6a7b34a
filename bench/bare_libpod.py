"""The fastest way we know to have containers: libpod's REST calls, four in flight, and nothing around them.

The containers are those ours makes: same image, one published port, labels, the same restart policy. Nothing waits for
them to answer, nothing is recorded, nothing would be undone.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import quote

import aiohttp

from bench.ground import PEERS, PORT, Ground
from holdfast.adapters.runtime.podman import creation
from holdfast.model.container import ContainerSpec
from holdfast.ports.runtime import CreateContainer

IN_FLIGHT = 4
FIRST_PORT = 20000
LOOPBACK = "127.0.0.1"
LIMITS = {"nofile": 4096, "nproc": 4096}
API = "http://d/v4.0.0/libpod"
SOCKET = "bench.sock"
PATIENCE_S = 10.0
Work = Callable[[aiohttp.ClientSession], Awaitable[None]]


class BareLibpod:
    """`published` is False for cheaper containers, which nobody outside reaches: told, not judged."""

    def __init__(self, ground: Ground, containers: int, published: bool = True) -> None:
        self.name = "bare libpod REST" if published else "bare libpod REST, no ports"
        self._ground, self._count, self._published = ground, containers, published
        self._socket = ground.run_path(PEERS, SOCKET)
        self._service = None if os.path.exists(self._socket) else self._serve()

    def _serve(self) -> object:
        service = self._ground.start_inside(PEERS, "podman", "system", "service", "--time=0", f"unix:///run/{SOCKET}")
        give_up_s = time.monotonic() + PATIENCE_S
        while not os.path.exists(self._socket):
            if time.monotonic() > give_up_s:
                raise SystemExit("podman's service does not come up")
            time.sleep(0.02)
        return service

    # ---- the four things that are measured, or cleared up

    def deploy(self) -> None:
        self._all(self._make(number, f"b{number}", 0) for number in range(self._count))

    def noop(self) -> None:
        asyncio.run(self._listed())

    def change(self) -> None:
        async def work(session: aiohttp.ClientSession) -> None:
            await self._make(self._count, "b0-new", 1)(session)
            await _call(session, "POST", "containers/b0/stop?timeout=10")
            await _call(session, "DELETE", "containers/b0")

        asyncio.run(self._with_session(work))

    def clear(self) -> None:
        names = asyncio.run(self._listed())
        self._all(_removing(name) for name in names)

    # ---- calls

    def _make(self, number: int, name: str, version: int) -> Work:
        async def work(session: aiohttp.ClientSession) -> None:
            await _call(session, "POST", "containers/create", self._spec(number, name, version))
            await _call(session, "POST", f"containers/{name}/start")

        return work

    def _spec(self, number: int, name: str, version: int) -> dict[str, object]:
        """Made by our own code: the same capabilities, limits, log and restart policy."""
        spec = ContainerSpec("bench", name, "web", 1, self._ground.images[version], "", ports=(PORT,))
        publish = ((PORT, LOOPBACK, FIRST_PORT + number),) if self._published else ()
        labels = {"bench.service": name, "bench.version": str(version)}
        return creation.body(CreateContainer(name, spec, labels, publish=publish), LIMITS)

    async def _listed(self) -> list[str]:
        found: list[str] = []

        async def work(session: aiohttp.ClientSession) -> None:
            found.extend(each["Names"][0] for each in await _call(session, "GET", "containers/json?all=true"))

        await self._with_session(work)
        return found

    def _all(self, works: Iterable[Work]) -> None:
        async def work(session: aiohttp.ClientSession) -> None:
            gate = asyncio.Semaphore(IN_FLIGHT)

            async def one(each: Work) -> None:
                async with gate:
                    await each(session)

            await asyncio.gather(*(one(each) for each in works))

        asyncio.run(self._with_session(work))

    async def _with_session(self, work: Work) -> None:
        timeout = aiohttp.ClientTimeout(total=300)
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(self._socket), timeout=timeout) as session:
            await work(session)


def _removing(name: str) -> Work:
    async def work(session: aiohttp.ClientSession) -> None:
        await _call(session, "DELETE", f"containers/{quote(name)}?force=true&timeout=0")

    return work


async def _call(session: aiohttp.ClientSession, method: str, target: str, body: object = None) -> Any:
    async with session.request(method, f"{API}/{target}", json=body) as answer:
        if answer.status >= 400:
            raise SystemExit(f"podman answered {answer.status} to {method} {target}: {await answer.text()}")
        return await answer.json() if answer.content_type == "application/json" else None
