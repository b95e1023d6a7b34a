"""A client of a node over HTTPS: sends nothing before the node's certificate is proven by its pinned issuer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from holdfast.adapters.http_client.session import bounded_session
from holdfast.adapters.http_client.signing import Signing
from holdfast.adapters.tls.client import issued_context
from holdfast.errors import HoldfastError, Invalid, Unreachable
from holdfast.model import ssh_key
from holdfast.model.agent_address import place, shown
from holdfast.ports.agent_link import Callee, WrongNode
from holdfast.wire import codec, faults

if TYPE_CHECKING:
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.random_source import RandomSource

CALL_S = 5.0  # M-55: from looking it up to the last byte of its answer
POST_S = 15.0  # the other node may have to ask a server of its own
ANSWER_BYTES_MAX = 256 * 1024
KNOCK = "/v1/knock"


class HttpAgentLink:
    """`key` is the caller's own. One connection per call, and nothing is kept of it."""

    def __init__(self, key: IdentityKey, clock: Clock, random: RandomSource) -> None:
        self._signing = Signing(key, clock, random)

    async def knock(self, callee: Callee) -> None:
        await self._call(callee, KNOCK, None, CALL_S)

    async def post(self, callee: Callee, path: str, body: bytes) -> bytes:
        return await self._call(callee, path, body, POST_S)

    async def _call(self, callee: Callee, path: str, body: bytes | None, at_most_s: float) -> bytes:
        host, port = place(callee.address)
        where = shown(host, port)
        context = issued_context(callee.issuer)
        try:
            async with asyncio.timeout(at_most_s), bounded_session(context, 1, force_close=True) as session:
                return await self._ask(session, f"https://{where}", path, body, callee)
        except TimeoutError:
            raise _silent(callee, where, f"it took longer than {at_most_s:.0f} s") from None
        except aiohttp.ClientConnectorCertificateError as trouble:
            raise _wrong(callee, where, trouble.certificate_error) from trouble
        except (aiohttp.ClientError, OSError, ValueError) as trouble:
            raise _silent(callee, where, str(trouble) or type(trouble).__name__) from trouble

    async def _ask(
        self, session: aiohttp.ClientSession, url: str, path: str, body: bytes | None, callee: Callee
    ) -> bytes:
        to = ssh_key.fingerprint(ssh_key.parse(callee.key))
        signed = self._signing.sign("POST", path, body, fleet=callee.fleet, to=to)
        async with session.post(
            URL(url + path, encoded=True),
            data=body,
            headers=signed.headers,
            server_hostname=callee.name,
            allow_redirects=False,
        ) as answer:
            content = await _content(answer)
            if len(content) > ANSWER_BYTES_MAX:
                raise _silent(callee, callee.address, "its answer is too long")
            if answer.status != 200:
                raise _refused(answer, content, callee)
            return content


async def _content(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    while len(content) <= ANSWER_BYTES_MAX and (piece := await answer.content.readany()):
        content += piece
    return bytes(content)


def _refused(answer: aiohttp.ClientResponse, content: bytes, callee: Callee) -> HoldfastError:
    """The node's own refusal where it sent one: a clock that differs, a key it does not know."""
    try:
        fault = codec.read(content, faults.Fault)
    except Invalid:
        return _silent(callee, callee.address, f"it answers {answer.status} without a node's error message")
    return faults.trouble(fault, answer.status, answer.headers.get(faults.EXIT_HEADER, ""), faults.NODE)


def _wrong(callee: Callee, where: str, why: Exception) -> WrongNode:
    reason = getattr(why, "verify_message", "") or str(why)
    return WrongNode(
        f"the machine at {where} is not proven to be {callee.node}: {reason}; nothing was sent to it",
        remedy=f"check what listens there; if {callee.node} has a new issuing certificate: `holdfast apply` pins it",
    )


def _silent(callee: Callee, where: str, why: str) -> Unreachable:
    return Unreachable(
        f"{callee.node} did not answer at {where}: {why}",
        remedy=f"check that its agent runs and that its port can be reached: holdfast node show {callee.node}",
    )
