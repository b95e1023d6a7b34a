"""Calling a node over HTTPS: its certificate must come from the issuer that operators pinned, before a byte is said."""

from __future__ import annotations

import asyncio
import binascii
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from holdfast.adapters.tls.client import issued_context
from holdfast.errors import HoldfastError, Invalid, Unreachable
from holdfast.model import ssh_key
from holdfast.model.agent_address import place, shown
from holdfast.ports.agent_link import Callee, WrongNode
from holdfast.wire import codec, faults, http_signature

if TYPE_CHECKING:
    import ssl

    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.random_source import RandomSource

CALL_S = 5.0  # M-55: from looking it up to the last byte of its answer
ANSWER_BYTES_MAX = 64 * 1024
KNOCK = "/v1/knock"


class HttpAgentLink:
    """`key` is the hub's own. One connection per call, and nothing is kept of it."""

    def __init__(self, key: IdentityKey, clock: Clock, random: RandomSource) -> None:
        self._key = key
        self._clock = clock
        self._random = random

    async def knock(self, callee: Callee) -> None:
        host, port = place(callee.address)
        where = shown(host, port)
        context = issued_context(callee.issuer)
        try:
            async with asyncio.timeout(CALL_S), _session(context) as session:
                await self._ask(session, f"https://{where}", callee)
        except TimeoutError:
            raise _silent(callee, where, f"it took longer than {CALL_S:.0f} s") from None
        except aiohttp.ClientConnectorCertificateError as trouble:
            raise _wrong(callee, where, trouble.certificate_error) from trouble
        except (aiohttp.ClientError, OSError, ValueError) as trouble:
            raise _silent(callee, where, str(trouble) or type(trouble).__name__) from trouble

    async def _ask(self, session: aiohttp.ClientSession, url: str, callee: Callee) -> None:
        nonce = binascii.b2a_base64(self._random.token(http_signature.NONCE_BYTES), newline=False).decode()
        to = ssh_key.fingerprint(ssh_key.parse(callee.key))
        created_s = int(self._clock.now_s())
        proof = http_signature.sign(self._key, "POST", KNOCK, None, callee.fleet, to, created_s, nonce)
        async with session.post(
            URL(url + KNOCK, encoded=True), headers=proof, server_hostname=callee.name, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise await _refused(answer, callee)


def _session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=1, force_close=True, use_dns_cache=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # no proxy out of the environment
        auto_decompress=False,
        headers={"User-Agent": "holdfast", "Accept": "application/json", "Accept-Encoding": "identity"},
    )


async def _refused(answer: aiohttp.ClientResponse, callee: Callee) -> HoldfastError:
    """In the node's own words where it has some: a clock that is off, a hub key it does not know."""
    content = bytearray()
    while len(content) <= ANSWER_BYTES_MAX and (piece := await answer.content.readany()):
        content += piece
    try:
        fault = codec.read(bytes(content), faults.Fault)
    except Invalid:
        return _silent(callee, callee.address, f"it answers {answer.status} in words that are not a node's")
    return faults.trouble(fault, answer.status, answer.headers.get(faults.EXIT_HEADER, ""))


def _wrong(callee: Callee, where: str, why: Exception) -> WrongNode:
    reason = getattr(why, "verify_message", "") or str(why)
    return WrongNode(
        f"what answers at {where} is not proven to be {callee.node}: {reason}; nothing was said to it",
        remedy=f"look at who listens there; if {callee.node} has a new issuing certificate: holdfast apply pins it",
    )


def _silent(callee: Callee, where: str, why: str) -> Unreachable:
    return Unreachable(
        f"{callee.node} did not answer at {where}: {why}",
        remedy=f"see that its agent runs and can be reached from the hub: holdfast node show {callee.node}",
    )
