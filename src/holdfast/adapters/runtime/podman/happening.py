"""Notice changes of containers through podman's event stream."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.adapters.runtime.podman.libpod import Libpod, Refused, filters
from holdfast.errors import TryLater

AGAIN_S = 1.0
LINE_MAX = 1 << 20  # of an event that does not end
# Without `exec` and `exec_died`: a health check is not a change.
TYPES = ("create", "start", "died", "stop", "kill", "remove", "rename", "pause", "unpause", "cleanup", "restart")


class Happening:
    """`heard` gets each event."""

    def __init__(self, libpod: Libpod, heard: Callable[[bytes], None]) -> None:
        self._libpod = libpod
        self._heard = heard
        self._bell = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None
        self._missed = False

    def begin(self) -> None:
        """Listen from now on, if it does not listen already."""
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())

    async def changed(self, at_most_s: float) -> bool:
        self.begin()
        try:
            async with asyncio.timeout(at_most_s):
                await self._bell.wait()
        except TimeoutError:
            return False
        self._bell.clear()
        return True

    async def _listen(self) -> None:
        while True:
            with suppress(TryLater, Refused):
                await self._hear()
            if not self._missed:
                self._bell.set()  # the service may be gone: what runs is to be looked at
            self._missed = True
            await asyncio.sleep(AGAIN_S)

    async def _hear(self) -> None:
        params = {"stream": "true", "filters": filters({"type": ["container"], "event": TYPES})}
        async with self._libpod.open("GET", "events", params=params, timeout_s=None) as answer:
            if self._missed:  # events may have been lost while the stream was closed
                self._bell.set()
            self._missed = False
            begun = b""
            async for piece in answer.content.iter_any():
                *lines, begun = (begun + piece)[-LINE_MAX:].split(b"\n")
                for line in lines:
                    self._heard(line)
                self._bell.set()

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener])  # awaiting the task itself could hide that this one is cancelled
            self._listener = None
