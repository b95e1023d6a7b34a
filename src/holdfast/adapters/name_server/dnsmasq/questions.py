"""Queries to one DNS server over one socket, many at a time, each with a time limit.

dnspython is loaded at the first query: it takes 3 MB, and most nodes serve no DNS.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from ipaddress import ip_address
from typing import cast

from holdfast.errors import TryLater

TRIES = 3
AT_ONCE = 64


class Questions(asyncio.DatagramProtocol):
    def __init__(self, server: str, try_s: float) -> None:
        self._server = server
        self._try_s = try_s
        self._number = 0
        self._open: dict[bytes, asyncio.Future[bytes]] = {}  # by the id of the query
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        waiting = self._open.get(data[:2])
        if waiting is not None and not waiting.done():
            waiting.set_result(data[2:])

    def error_received(self, exc: Exception) -> None:
        """The port is closed, so waiting is pointless."""
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(exc)

    async def ask(
        self,
        name: str,
        kind: str = "A",
        of: str = "IN",
    ) -> tuple[str, ...]:
        """The records of the answer; () also if the name does not exist. Raises TryLater if no answer arrives."""
        assert self._transport is not None
        query = _query(name, kind, of)
        for _ in range(TRIES):
            self._number = (self._number + 1) % 65536
            id = self._number.to_bytes(2, "big")
            self._open[id] = asyncio.get_running_loop().create_future()
            try:
                self._transport.sendto(id + query)
                async with asyncio.timeout(self._try_s):
                    records = _records(query, kind, await self._open[id])
            except TimeoutError:
                continue
            except OSError:
                break
            finally:
                del self._open[id]
            if records is not None:
                return records
        raise silent(self._server)

    async def addresses(self, names: Mapping[str, str]) -> dict[str, str]:
        """Which of these names exist, and their addresses; the given addresses select A or AAAA."""
        found: dict[str, str] = {}
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(name: str, like: str) -> None:
            async with turn:
                kind = "A" if ip_address(like).version == 4 else "AAAA"
                for address in await self.ask(name, kind):
                    found[name] = address

        await asyncio.gather(*(one(name, like) for name, like in names.items()))
        return found


# A server that is at rest is asked the same and answers the same for days: both are made and read once. The first two
# bytes of a message are its id.


@lru_cache(64)
def _query(name: str, kind: str, of: str) -> bytes:
    import dns.message

    return dns.message.make_query(name, kind, of, id=0).to_wire()[2:]


@lru_cache(64)
def _records(query: bytes, kind: str, answer: bytes) -> tuple[str, ...] | None:
    """None if this is not an answer to this query."""
    import dns.exception
    import dns.message
    import dns.rdatatype

    wanted = dns.rdatatype.from_text(kind)
    try:
        asked, said = (dns.message.from_wire(b"\0\0" + one, ignore_trailing=True) for one in (query, answer))
    except (dns.exception.DNSException, ValueError):
        return None
    if not asked.is_response(said):
        return None
    return tuple(data.to_text() for record in said.answer for data in record if record.rdtype == wanted)


@asynccontextmanager
async def questions(address: str, port: int, try_s: float) -> AsyncIterator[Questions]:
    where = f"{address}:{port}"
    line = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        line.connect((address, port))  # not by the loop, which would have a thread look up the address
        transport, asking = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Questions(where, try_s), sock=line
        )
    except OSError as trouble:
        line.close()
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
