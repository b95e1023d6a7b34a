"""The hub's client of a node over HTTPS: sends nothing before the node's certificate is proven by its pinned issuer."""

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
ANSWER_BYTES_MAX = 64 * 1024
KNOCK = "/v1/knock"


class HttpAgentLink:
    """`key` is the hub's own. One connection per call, and nothing is kept of it."""

    def __init__(self, key: IdentityKey, clock: Clock, random: RandomSource) -> None:
        self._signing = Signing(key, clock, random)

    async def knock(self, callee: Callee) -> None:
        host, port = place(callee.address)
        where = shown(host, port)
        context = issued_context(callee.issuer)
        try:
            async with asyncio.timeout(CALL_S), bounded_session(context, 1, force_close=True) as session:
                await self._ask(session, f"https://{where}", callee)
        except TimeoutError:
            raise _silent(callee, where, f"it took longer than {CALL_S:.0f} s") from None
        except aiohttp.ClientConnectorCertificateError as trouble:
            raise _wrong(callee, where, trouble.certificate_error) from trouble
        except (aiohttp.ClientError, OSError, ValueError) as trouble:
            raise _silent(callee, where, str(trouble) or type(trouble).__name__) from trouble

    async def _ask(self, session: aiohttp.ClientSession, url: str, callee: Callee) -> None:
        to = ssh_key.fingerprint(ssh_key.parse(callee.key))
        signed = self._signing.sign("POST", KNOCK, None, fleet=callee.fleet, to=to)
        async with session.post(
            URL(url + KNOCK, encoded=True), headers=signed.headers, server_hostname=callee.name, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise await _refused(answer, callee)


async def _refused(answer: aiohttp.ClientResponse, callee: Callee) -> HoldfastError:
    """The node's own refusal where it sent one: a clock that differs, a hub key it does not know."""
    content = bytearray()
    while len(content) <= ANSWER_BYTES_MAX and (piece := await answer.content.readany()):
        content += piece
    try:
        fault = codec.read(bytes(content), faults.Fault)
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
        remedy=f"check that its agent runs and can be reached from the hub: holdfast node show {callee.node}",
    )
