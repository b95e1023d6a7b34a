"""A node's end of a stream: connects to the hub, asks it to switch, and speaks TLS with the caller through it."""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.adapters.http_client import hub_address
from holdfast.adapters.http_client.signing import Signing
from holdfast.adapters.stream_link import inner_tls
from holdfast.adapters.tls import client
from holdfast.errors import HoldfastError, Unreachable
from holdfast.model import ssh_key
from holdfast.model.stream import PROTOCOL
from holdfast.wire import codec, faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.adapters.stream_link.inner_tls import Inner
    from holdfast.model.certificate import Issued
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.random_source import RandomSource

CONNECT_S = 10.0
MEET_S = 60.0  # the hub gives up after forty-five
HANDSHAKE_S = 15.0
BUFFER_BYTES = 64 * 1024
REFUSAL_BYTES_MAX = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.1 ([1-9][0-9]{2})[ \r]")


class Pipe:
    """The connection after the hub has switched."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=BUFFER_BYTES)

    async def read(self) -> bytes:
        with suppress(OSError):  # also what ssl raises: a peer that is gone sends nothing more
            return await self._reader.read(BUFFER_BYTES)
        return b""

    async def write(self, content: bytes) -> None:
        try:
            self._writer.write(content)
            await self._writer.drain()
        except OSError:
            raise inner_tls.cut("the caller") from None

    def close(self) -> None:
        self._writer.close()


class TlsChannel:
    """Only what `inner` seals goes through the pipe. One reader and one writer at a time."""

    def __init__(self, pipe: Pipe, inner: Inner) -> None:
        self._pipe = pipe
        self._inner = inner

    async def shake_hands(self) -> None:
        try:
            while not self._inner.shaken():
                await self._flush()
                self._inner.feed(await self._pipe.read())
        finally:
            with suppress(HoldfastError):  # also the alert that says why not
                await self._flush()

    async def read(self) -> bytes:
        while (said := self._inner.opened()) is None:
            self._inner.feed(await self._pipe.read())
        return said

    async def write(self, content: bytes) -> None:
        for at in range(0, len(content), BUFFER_BYTES):
            self._inner.seal(content[at : at + BUFFER_BYTES])
            await self._flush()

    async def close(self) -> None:
        self._inner.goodbye()
        with suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._flush()
        self._pipe.close()

    async def _flush(self) -> None:
        out = self._inner.outgoing()
        if out:
            await self._pipe.write(out)


async def sealed(pipe: Pipe, shown: Issued, caller: bytes) -> TlsChannel:
    """The pipe is closed unless the one at its other end holds the key of exactly this certificate."""
    try:
        inner = inner_tls.node_end(shown, caller)
        channel = TlsChannel(pipe, inner)
        async with asyncio.timeout(HANDSHAKE_S):
            await channel.shake_hands()
        inner_tls.check_caller(inner, caller)
    except TimeoutError:
        pipe.close()
        raise inner_tls.cut("the caller") from None
    except BaseException:
        pipe.close()
        raise
    return channel


class HttpNodeStreams:
    """`fleet` is called for every request: it gives "" until the first revision was accepted."""

    def __init__(
        self, url: str, hub_key: str, key: IdentityKey, fleet: Callable[[], str], clock: Clock, random: RandomSource
    ) -> None:
        address = hub_address.parse(url)
        self._host, self._port = address.host, address.port
        self._authority = address.authority
        self._context = client.pinned_context(hub_key, self._host, clock.now_s)
        self._to = ssh_key.fingerprint(ssh_key.parse(hub_key))
        self._signing = Signing(key, clock, random)
        self._fleet = fleet

    async def answer(self, order: str, shown: Issued, caller: bytes) -> TlsChannel:
        return await sealed(await self._pipe(order), shown, caller)

    async def _pipe(self, order: str) -> Pipe:
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._context, server_hostname=self._host, limit=BUFFER_BYTES
                )
        except (OSError, ssl.SSLError) as trouble:  # a TimeoutError is one, too
            raise client.refusal(trouble) or self._unreachable(str(trouble) or "it took too long") from trouble
        try:
            writer.write(self._request(order))
            async with asyncio.timeout(MEET_S):
                await self._switched(reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as trouble:
            writer.close()
            raise self._unreachable(str(trouble) or "it took too long") from trouble
        except BaseException:
            writer.close()
            raise
        return Pipe(reader, writer)

    def _request(self, order: str) -> bytes:
        target = f"/v1/streams/{order}"
        signed = self._signing.sign("GET", target, None, fleet=self._fleet(), to=self._to)
        lines = [f"GET {target} HTTP/1.1", f"Host: {self._authority}", "Connection: Upgrade", f"Upgrade: {PROTOCOL}"]
        lines += [f"{name}: {value}" for name, value in signed.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    async def _switched(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status = _STATUS.match(head)
        if status is None:
            raise self._unreachable("that is not HTTP")
        if status[1] == b"101":
            return
        length = re.search(rb"\r\ncontent-length: *([0-9]{1,7})\r\n", head, re.IGNORECASE)
        size_bytes = min(int(length[1]), REFUSAL_BYTES_MAX) if length else 0
        said = codec.read(await reader.readexactly(size_bytes), faults.Fault)
        exit_code = re.search(rb"\r\nholdfast-exit: *([0-9])\r\n", head, re.IGNORECASE)
        raise faults.trouble(said, int(status[1]), exit_code[1].decode() if exit_code else "")

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(
            f"the hub at {self._authority} did not open a stream: {why}",
            remedy="check that the hub runs there and can be reached from this machine",
        )
