"""The hub as a process: listen, serve, watch the fleet, and end in order on a signal. Builds no handlers."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

from holdfast.errors import Conflict, Failed, HoldfastError, Invalid
from holdfast.hub.http import limits
from holdfast.hub.http.api import Api
from holdfast.hub.http.connection import Listener
from holdfast.hub.http.denials import Denials
from holdfast.hub.service_manager import notify

log = logging.getLogger("holdfast.hub")

READERS = 4
BACKLOG = 1_024
WATCH_AGAIN_S = 5.0
RENEWAL_S = 3_600.0  # how often the certificate is looked at


class Shown(Protocol):
    """The hub's side of a TLS 1.3 handshake: a certificate of its own key."""

    @property
    def context(self) -> ssl.SSLContext: ...

    def renew(self) -> bool:
        """Make a new certificate for the same context if the old one is due; blocking. True if there is a new one."""
        ...


class Daemon:
    """Runs once. `make_api` gets the threads for reads and the one thread for writes; `watch` watches the fleet."""

    def __init__(
        self,
        *,
        make_api: Callable[[Executor, Executor], Api],
        denials: Denials,
        shown: Shown,
        watch: Callable[[], Awaitable[None]],
        host: str,
        port: int,
    ) -> None:
        self._make_api = make_api
        self._denials = denials
        self._shown = shown
        self._watch = watch
        self._host = plain_host(host)
        self._port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    def run(self, ready: Callable[[int], None]) -> None:
        """Serve until SIGTERM, SIGINT or `stop`. Calls `ready` with the port; the system chooses one for port 0."""
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(self._live(ready))

    def stop(self) -> None:
        """From any thread; a second call changes nothing."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _live(self, ready: Callable[[int], None]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        with _threads(READERS, "hub-read") as reads, _threads(1, "hub-write") as writes, _signals(loop, self._stop.set):
            api = self._make_api(reads, writes)
            listener = Listener(api, loop)
            try:
                with _listen(self._host, self._port) as door:
                    async with _running(
                        listener.listen(door, self._shown.context), self._renewing(reads), self._watching()
                    ) as tasks:
                        notify("READY=1")
                        ready(door.getsockname()[1])
                        await self._ended(tasks)
                        notify("STOPPING=1")
                await _drain(api, listener)
            finally:
                await listener.shutdown(0.1)
                await self._denials.close()

    async def _ended(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for the stop, or for the end of a task that should run for ever: then raise what ended it."""
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        for task in tasks:
            if task.done():
                task.result()

    async def _watching(self) -> None:
        """Watch the fleet until the end. An error there is logged; the hub goes on answering."""
        while True:
            try:
                await self._watch()
            except HoldfastError as trouble:
                log.error("nodes are not watched for a moment: %s; %s", trouble.message, trouble.remedy)
            except Exception:
                log.exception("nodes are not watched for a moment: unexpected error")
            await asyncio.sleep(WATCH_AGAIN_S)

    async def _renewing(self, reads: ThreadPoolExecutor) -> None:
        while True:
            await asyncio.sleep(RENEWAL_S)
            try:
                if await asyncio.get_running_loop().run_in_executor(reads, self._shown.renew):
                    log.info("the hub shows a new certificate, made with the same key")
            except HoldfastError as trouble:
                log.error("the certificate could not be renewed: %s; %s", trouble.message, trouble.remedy)


@asynccontextmanager
async def _running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run these as tasks; they have ended when the block is left."""
    tasks = [asyncio.get_running_loop().create_task(each) for each in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def plain_host(host: str) -> str:
    return host.removeprefix("[").removesuffix("]")


async def _drain(api: Api, listener: Listener) -> None:
    """No new connections: end idle ones and held check-ins, and wait for the requests under way."""
    listener.pre_shutdown()
    api.let_go()
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limits.DRAIN_S
    while api.serving and loop.time() < until_s:
        await asyncio.sleep(0.02)


@contextmanager
def _threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Wait for a commit that is being written: at the end it is either in the ledger or was never begun."""
    executor = ThreadPoolExecutor(count, thread_name_prefix=name)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


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


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        door.listen(BACKLOG)
        door.setblocking(False)
    except OSError as trouble:
        door.close()
        raise _cannot_listen(host, port, trouble) from trouble
    except OverflowError:
        door.close()
        raise Invalid(f"{port} is no port", remedy="give a port from 0 to 65535") from None
    return door


def _cannot_listen(host: str, port: int, trouble: OSError) -> HoldfastError:
    import errno

    what = f"cannot listen on {host} port {port}: {trouble.strerror}"
    if trouble.errno == errno.EADDRINUSE:
        return Conflict(what, remedy="stop the other process, or choose another --listen", code="address_in_use")
    return Failed(what, remedy="choose another --listen address", code="listen_failed")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
