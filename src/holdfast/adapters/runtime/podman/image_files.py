"""Images: pulled, and what they declare and have: volumes from the configuration, a directory from an export.

Podman's archive of a directory gives every file to the user of the container, so that it tells nothing of owners. An
export tells the truth, but is of the whole image.
"""

import asyncio
import binascii
import io
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import wait
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, cast

import aiohttp
import msgspec

from holdfast.adapters.runtime.podman import refusal
from holdfast.adapters.runtime.podman.libpod import Libpod, Refused, away, stumbled
from holdfast.adapters.runtime.podman.listing import inspect
from holdfast.adapters.runtime.podman.pulling import pull
from holdfast.errors import Failed
from holdfast.ports.runtime import ImageDirectory

__all__ = ["directory", "pull", "volumes"]

SILENCE_S = 60.0
PIECE_BYTES = 1 << 20
LOOK_S = 0.5
STAT = "X-Docker-Container-Path-Stat"


class _Config(msgspec.Struct, frozen=True, rename="pascal"):
    volumes: dict[str, Any] | None = None


class _Image(msgspec.Struct, frozen=True, rename="pascal"):
    config: _Config | None = None


class _Found(msgspec.Struct, frozen=True, rename="camel"):
    is_dir: bool = False
    link_target: str = ""  # the path without links


async def volumes(libpod: Libpod, reference: str) -> Sequence[str]:
    try:
        answer = await libpod.call("GET", f"images/{reference}/json")
    except Refused as no:
        if no.absent:
            remedy = "it is pulled again automatically"
            raise Failed(f"{reference} is not on this node", remedy=remedy, code="image_missing") from no
        raise stumbled(no) from no
    config = msgspec.json.decode(answer.body, type=_Image).config
    return sorted((config.volumes if config is not None else None) or ())


@asynccontextmanager
async def directory(libpod: Libpod, id: str, path: str) -> AsyncIterator[ImageDirectory | None]:
    """Of a container without mounts that was never started."""
    try:
        found = await _found(libpod, id, path)
        if not found.is_dir:
            yield None
            return
        where = f"containers/{id}/export"
        async with libpod.open("GET", where, timeout_s=None, silence_s=SILENCE_S) as answer:
            stream = _Stream(answer.content.iter_any(), asyncio.get_running_loop())
            try:
                tar = cast(BinaryIO, io.BufferedReader(stream, PIECE_BYTES))
                yield ImageDirectory(found.link_target.strip("/"), tar)
            finally:
                stream.end()
    except Refused as no:
        raise refusal.failed(f"cannot read {path} of the image of container {id[:12]}", no) from no


async def _found(libpod: Libpod, id: str, path: str) -> _Found:
    try:
        async with libpod.open("HEAD", f"containers/{id}/archive", params={"path": path}) as answer:
            text = answer.headers.get(STAT, "")
    except Refused as no:
        if not no.absent:
            raise
        if await inspect(libpod, id) is None:  # such an answer has no text that tells one from the other
            raise stumbled(Refused(404, "", f"container {id[:12]}, which reads the image, is gone")) from no
        return _Found()
    try:
        return msgspec.json.decode(b64decode(text), type=_Found)
    except (binascii.Error, ValueError, msgspec.DecodeError) as trouble:
        raise Refused(0, "", f"podman sent no description of it ({trouble})") from trouble


class _Stream(io.RawIOBase):
    """A stream of the event loop, as a file for a thread. A failure of podman is told as one, not as one of a disk."""

    def __init__(self, pieces: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self._pieces = pieces
        self._loop = loop
        self._left = b""
        self._is_over = False

    def end(self) -> None:
        """A thread that still reads it gets an error."""
        self._is_over = True

    def readable(self) -> bool:
        return True

    def readinto(self, target: "bytearray | memoryview") -> int:  # type: ignore[override]
        if not self._left:
            self._left = self._next()
        length = min(len(target), len(self._left))
        target[:length], self._left = self._left[:length], self._left[length:]
        return length

    def _next(self) -> bytes:
        """Not `result(LOOK_S)`: its own TimeoutError cannot be told from that of a podman that fell silent."""
        if self._is_over:
            raise away("the stream was ended")
        piece = asyncio.run_coroutine_threadsafe(_next(self._pieces), self._loop)
        while not wait([piece], LOOK_S).done:
            if self._is_over:
                raise away("the stream was ended")
        try:
            return piece.result()
        except (aiohttp.ClientError, OSError) as trouble:
            raise away(f"it stopped while an image was read: {trouble or type(trouble).__name__}") from trouble


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    """The next one that has content; b"" at the end."""
    async for piece in pieces:
        if piece:
            return piece
    return b""
