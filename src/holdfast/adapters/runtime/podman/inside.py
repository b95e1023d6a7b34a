"""A connection that a program inside a container has made, as the two streams of that program."""

import asyncio
import errno
import os

PIECE_BYTES = 4096


class Inside:
    """`child` copies its input to the connection and the connection to its output, and fails if there is none."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self._has_answered = False

    async def send(self, content: bytes) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(content)
        await self._child.stdin.drain()

    async def receive(self) -> bytes:
        assert self._child.stdout is not None
        content = await self._child.stdout.read(PIECE_BYTES)
        self._has_answered |= bool(content)
        if not self._has_answered and await self._child.wait() != 0:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        return content
