"""Queries to Envoy's admin socket: loaded versions, gauges, server state. Each has a time limit."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from holdfast.adapters.proxy.envoy.names import digest
from holdfast.errors import TryLater

ANSWER_S = 3.0  # while it loads two thousand services, Envoy does not answer for most of a second
ANSWER_BYTES_MAX = 64 << 20
INOTIFY = "fs.inotify.max_user_instances"  # named by an Envoy that cannot watch its files


def socket_of(directory: str, run_dir: str) -> str:
    """Of the Envoy whose files are in this directory: several proxies of one machine share `run_dir`."""
    return os.path.join(os.path.abspath(run_dir), f"envoy-{digest(directory, 8)}.sock")


class _About(Struct, frozen=True):
    """The two fields of a long answer that are read."""

    version: str = ""
    state: str = ""


class _Statistic(Struct, frozen=True):
    name: str = ""
    value: str | int = 0


class _Statistics(Struct, frozen=True):
    stats: tuple[_Statistic, ...] = ()


Answer = TypeVar("Answer")
_about = msgspec.json.Decoder(_About).decode
_statistics = msgspec.json.Decoder(_Statistics).decode


class Admin:
    def __init__(self, socket: str) -> None:
        self.socket = socket

    async def versions(self) -> Mapping[str, str]:
        """By statistic: the active version of each file."""
        return {one.name: str(one.value) for one in await self._statistics("TextReadouts", "version_text$")}

    async def gauges(self, pattern: str) -> Mapping[str, int]:
        return {one.name: int(one.value) for one in await self._statistics("Gauges", pattern)}

    async def version(self) -> str:
        """Product and version; "" until it serves."""
        about = await self._asked("/server_info", _about)
        words = about.version.split("/")
        return f"envoy {words[1]}" if about.state == "LIVE" and len(words) > 1 else ""

    async def _statistics(self, kind: str, pattern: str) -> list[_Statistic]:
        target = f"/stats?format=json&type={kind}&filter={quote(pattern, safe='')}"
        return [one for one in (await self._asked(target, _statistics)).stats if one.name]

    async def _asked(self, path: str, decode: Callable[[bytes], Answer]) -> Answer:
        """One request per connection: no connection outlives a loop, an agent or an Envoy process."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return decode(await self._exchanged(path))
        except (OSError, TimeoutError, ValueError, msgspec.DecodeError, asyncio.IncompleteReadError) as trouble:
            raise down(f"it does not answer at {self.socket}: {str(trouble) or type(trouble).__name__}") from trouble

    async def _exchanged(self, path: str) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self.socket, limit=ANSWER_BYTES_MAX)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: envoy\r\nConnection: close\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise ValueError(head.partition(b"\r\n")[0].decode("ascii", "replace"))
            return await _body(reader) if b"transfer-encoding: chunked" in head.lower() else await reader.read()
        finally:
            writer.close()


async def _body(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readline()).strip() or b"0", 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    return b"".join(parts)


def down(why: str) -> TryLater:
    if INOTIFY in why:
        return TryLater(
            "the proxy of this node is not running: it ends at its start, because its user has no inotify instances "
            f"left ({why})",
            remedy=f"on the node: sysctl -w {INOTIFY}=1024; for the next boot, write it into a file in /etc/sysctl.d",
            code="proxy_down",
        )
    return TryLater(
        f"the proxy of this node is not running: {why}",
        remedy="it restarts automatically; if this persists, read proxy/envoy.log in the agent's state directory",
        code="proxy_down",
    )
