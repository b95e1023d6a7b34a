"""The hub as a process: listen once everything is ready, serve, and leave politely when told to."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from aiohttp import web

from holdfast.errors import Conflict, Failed, HoldfastError, Invalid
from holdfast.hub import limits
from holdfast.hub.api import Api
from holdfast.hub.connection import Listener
from holdfast.hub.notify import notify
from holdfast.ports.hub_link import HubLink

READERS = 4
BACKLOG = 512
UNAUTHENTICATED = (
    "warning: requests to this hub are not authenticated: whoever reaches this address may read everything; "
    "commits are taken only with valid operator signatures"
)


def loopback(host: str) -> str:
    """The address to listen on. There is no way yet to tell callers apart, so only this machine may call (C-33)."""
    plain = host.strip("[]")
    if plain == "localhost":
        return "127.0.0.1"
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, plain)
        except OSError:
            continue
        if packed[0] == 127 if family == socket.AF_INET else packed == bytes(15) + b"\x01":
            return plain
    raise Invalid(
        f"{host or 'every address'} can be reached from outside this machine, and requests are not authenticated yet",
        remedy="listen on a loopback address (--listen 127.0.0.1:9555) and reach it from outside through ssh -L",
        code="unauthenticated_listen",
    )


def serve(
    hub: HubLink, host: str, port: int, ready: Callable[[int], None], say: Callable[[str], object] | None = None
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` hears the port, which is chosen by the system if 0 was asked for."""
    Daemon(hub, host, port, say).run(ready)


class Daemon:
    """Takes a hub that already booted: nothing here listens before there is something to say."""

    def __init__(self, hub: HubLink, host: str, port: int, say: Callable[[str], object] | None = None) -> None:
        self._hub = hub
        self._host = loopback(host)
        self._port = port
        self._say = say or _to_stderr
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    def run(self, ready: Callable[[int], None]) -> None:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(self._live(ready))

    def stop(self) -> None:
        """From any thread; a second call changes nothing."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._told.set)

    async def _live(self, ready: Callable[[int], None]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        with _threads(READERS, "hub-read") as reads, _threads(1, "hub-write") as writes, _signals(loop, self._told.set):
            api = Api(self._hub, reads, writes)
            listener = Listener(api, loop)
            runner = web.ServerRunner(listener, shutdown_timeout=0.1)
            await runner.setup()
            try:
                with _listen(self._host, self._port) as door:
                    await web.SockSite(runner, door, backlog=BACKLOG).start()
                    self._say(UNAUTHENTICATED)
                    notify("READY=1")
                    ready(door.getsockname()[1])
                    await self._told.wait()
                    notify("STOPPING=1")
                    await _drain(api, listener, runner)
            finally:
                await runner.cleanup()


async def _drain(api: Api, listener: Listener, runner: web.ServerRunner) -> None:
    """No new callers, idle ones dismissed, and time for what is under way."""
    for site in list(runner.sites):
        await site.stop()
    listener.pre_shutdown()
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limits.DRAIN_S
    while api.serving and loop.time() < until_s:
        await asyncio.sleep(0.02)


@contextmanager
def _threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """A commit that already writes is waited for at the end: it is either in the ledger or was never begun."""
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
        return Conflict(what, remedy="stop whoever listens there, or choose another --listen", code="address_in_use")
    return Failed(what, remedy="choose another --listen address", code="listen_failed")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
