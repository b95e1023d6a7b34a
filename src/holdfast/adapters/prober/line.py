"""A short TCP connection with one deadline for all of it.

It avoids waiting: a local connection is usually complete at once, and a small request is sent without waiting, so a
typical probe waits once, for its answer. All connections wait together at one handle of the kernel: an event loop's
own handle for each would take eight system calls more.
"""

import asyncio
import errno
import select
import socket
from contextlib import suppress

Place = tuple[str, int]


class Waits:
    """Sockets that wait, by handle; of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._loop.add_reader(self._epoll.fileno(), self._wake)

    async def until(self, handle: int, event: int, deadline_s: float) -> None:
        """Until it may be read or written. A handle that is closed waits for nothing any more."""
        ready: asyncio.Future[None] = self._loop.create_future()
        try:
            self._epoll.register(handle, event | select.EPOLLONESHOT)
        except FileExistsError:  # this connection has waited before
            self._epoll.modify(handle, event | select.EPOLLONESHOT)
        self._waiting[handle] = ready
        timer = self._loop.call_at(deadline_s, _expire, ready)
        try:
            await ready
        finally:
            timer.cancel()
            del self._waiting[handle]

    def _wake(self) -> None:
        for handle, _ in self._epoll.poll(0):
            ready = self._waiting.get(handle)
            if ready is not None and not ready.done():
                ready.set_result(None)


def _expire(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_exception(TimeoutError())


class Line:
    """From `with` to its end. The first `send`, or `connected`, tells whether a connection was made."""

    def __init__(self, place: Place, timeout_s: float, waits: Waits) -> None:
        self._place = place
        self._waits = waits
        self._deadline_s = asyncio.get_running_loop().time() + timeout_s

    def __enter__(self) -> "Line":
        family = socket.AF_INET6 if ":" in self._place[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        code = self._socket.connect_ex(self._place)
        if code not in (0, errno.EINPROGRESS):
            self._socket.close()
            raise OSError(code, errno.errorcode.get(code, "cannot connect"))
        return self

    def __exit__(self, *trouble: object) -> None:
        self._socket.close()

    async def connected(self) -> None:
        """Asked again after each wait: an event may be of a closed connection that had the same handle."""
        while not self._is_connected():
            await self._until(select.EPOLLOUT)
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, errno.errorcode.get(code, "cannot connect"))

    def _is_connected(self) -> bool:
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    async def is_ended_within(self, seconds: float) -> bool:
        """Say that nothing more will be sent. True: the program at the other end took note, whatever it did."""
        self._socket.shutdown(socket.SHUT_WR)
        before_s = self._deadline_s
        self._deadline_s = min(before_s, asyncio.get_running_loop().time() + seconds)
        try:
            await self.receive()
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            self._deadline_s = before_s
        return True

    def own_end(self) -> Place:
        host, port, *_ = self._socket.getsockname()
        return host, port

    def left_s(self) -> float:
        return self._deadline_s - asyncio.get_running_loop().time()

    async def send(self, content: bytes) -> None:
        while content:
            try:
                content = content[self._socket.send(content) :]
            except BlockingIOError:  # also while the connection is being made
                await self._until(select.EPOLLOUT)

    async def receive(self) -> bytes:
        """Some bytes; none after the other side has closed."""
        while True:
            await self._until(select.EPOLLIN)
            with suppress(BlockingIOError):
                return self._socket.recv(4096)

    async def _until(self, event: int) -> None:
        await self._waits.until(self._socket.fileno(), event, self._deadline_s)
