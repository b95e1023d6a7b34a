"""The hub as a process: listen once everything is ready, serve, and drain after a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.errors import HoldfastError
from holdfast.hub.http import limits
from holdfast.hub.service_manager import notify

if TYPE_CHECKING:
    import ssl

    from holdfast.hub.http.serving.api import Api
    from holdfast.hub.http.serving.workers import Workers
    from holdfast.ports.http_server import Server

log = logging.getLogger("holdfast.hub")

WATCH_AGAIN_S = 5.0
RENEWAL_S = 3_600.0  # how often the certificate is checked


class Shown(Protocol):
    """The hub's side of a TLS handshake: TLS 1.3 with a certificate of its own key."""

    @property
    def context(self) -> ssl.SSLContext: ...

    def renew(self) -> bool:
        """Make a new certificate for the same context if the old one is due; blocking. True if there is a new one."""
        ...


class Watching(Protocol):
    """The loop that watches the fleet (hub/watch_loop.py)."""

    async def run(self) -> None:
        """Until cancelled."""
        ...


class Daemon:
    """`workers` ends with the daemon. `ended` raises when this hub must serve no more."""

    def __init__(
        self,
        *,
        server: Server,
        api: Api,
        workers: Workers,
        fleet: Watching,
        shown: Shown,
        ended: Callable[[], Coroutine[Any, Any, None]],
        new_loop: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        self._server = server
        self._api = api
        self._workers = workers
        self._fleet = fleet
        self._shown = shown
        self._until_ended = ended
        self._new_loop = new_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    def run(self, ready: Callable[[int], None]) -> None:
        """Serve until SIGTERM, SIGINT or `stop`. `ready` gets the port, chosen by the system if 0 was asked for."""
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._live(ready))

    def stop(self) -> None:
        """From any thread; a second call changes nothing."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _live(self, ready: Callable[[int], None]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        try:
            with _signals(loop, self._stop.set):
                await self._serve(ready)
        finally:
            self._workers.close()

    async def _serve(self, ready: Callable[[int], None]) -> None:
        try:
            with self._server.open() as port:
                async with _running(
                    self._server.listen(), self._renewing(), self._watching(), self._until_ended()
                ) as tasks:
                    notify("READY=1")
                    ready(port)
                    await self._ended(tasks)
                    notify("STOPPING=1")
            await self._drain()
        finally:
            await self._server.close()
            await self._api.close()

    async def _ended(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for the stop; or a task that should run for ever has ended, and then the process must not go on."""
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        for task in tasks:
            if task.done():
                task.result()

    async def _drain(self) -> None:
        """No new connections; idle ones and held check-ins end; requests under way have time to finish."""
        self._server.dismiss_idle()
        self._workers.let_go()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limits.DRAIN_S
        while self._server.serving and loop.time() < until_s:
            await asyncio.sleep(0.02)

    async def _watching(self) -> None:
        """Watch the fleet for as long as the hub runs; trouble with that does not stop the answering."""
        while True:
            try:
                await self._fleet.run()
            except HoldfastError as trouble:
                log.error("nodes are not watched for a moment: %s; %s", trouble.message, trouble.remedy)
            except Exception:
                log.exception("nodes are not watched for a moment, for an unforeseen reason")
            await asyncio.sleep(WATCH_AGAIN_S)

    async def _renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL_S)
            try:
                if await self._workers.read(self._shown.renew):
                    log.info("the hub shows a new certificate, made with the same key")
            except HoldfastError as trouble:
                log.error("the certificate could not be renewed: %s; %s", trouble.message, trouble.remedy)


@asynccontextmanager
async def _running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """These run in the background, and have ended when the block is left."""
    tasks = [asyncio.get_running_loop().create_task(each) for each in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = (signal.SIGTERM, signal.SIGINT)
    for number in heard:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
