"""Queries to one DNS server over one socket, many at a time, each with a time limit."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import cast

import dns.exception
import dns.message
import dns.rdataclass
import dns.rdatatype

from holdfast.errors import TryLater

TRIES = 3
AT_ONCE = 64


class Questions(asyncio.DatagramProtocol):
    def __init__(self, server: str, try_s: float) -> None:
        self._server = server
        self._try_s = try_s
        self._number = 0
        self._open: dict[int, asyncio.Future[dns.message.Message]] = {}
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        try:
            answer = dns.message.from_wire(data, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError):
            return
        waiting = self._open.get(answer.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def error_received(self, exc: Exception) -> None:
        """The port is closed, so waiting is pointless."""
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(exc)

    async def ask(
        self,
        name: str,
        kind: dns.rdatatype.RdataType = dns.rdatatype.A,
        of: dns.rdataclass.RdataClass = dns.rdataclass.IN,
    ) -> tuple[str, ...]:
        """The records of the answer; () also if the name does not exist. Raises TryLater if no answer arrives."""
        assert self._transport is not None
        for _ in range(TRIES):
            self._number = (self._number + 1) % 65536
            query = dns.message.make_query(name, kind, of, id=self._number)
            self._open[query.id] = asyncio.get_running_loop().create_future()
            try:
                self._transport.sendto(query.to_wire())
                async with asyncio.timeout(self._try_s):
                    answer = await self._open[query.id]
            except TimeoutError:
                continue
            except OSError:
                break
            finally:
                del self._open[query.id]
            if query.is_response(answer):
                return tuple(data.to_text() for record in answer.answer for data in record if record.rdtype == kind)
        raise silent(self._server)

    async def addresses(self, names: Mapping[str, str]) -> dict[str, str]:
        """Which of these names exist, and their addresses; the given addresses select A or AAAA."""
        found: dict[str, str] = {}
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(name: str, like: str) -> None:
            async with turn:
                kind = dns.rdatatype.A if ip_address(like).version == 4 else dns.rdatatype.AAAA
                for address in await self.ask(name, kind):
                    found[name] = address

        await asyncio.gather(*(one(name, like) for name, like in names.items()))
        return found


@asynccontextmanager
async def questions(address: str, port: int, try_s: float) -> AsyncIterator[Questions]:
    where = f"{address}:{port}"
    try:
        transport, asking = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Questions(where, try_s), remote_addr=(address, port)
        )
    except OSError as trouble:
        raise silent(where) from trouble
    try:
        yield asking
    finally:
        transport.close()


def silent(where: str) -> TryLater:
    return TryLater(
        f"the DNS server at {where} does not answer",
        remedy="the agent restarts it automatically; if this persists: journalctl -u holdfast-agent",
        code="dns_down",
    )
