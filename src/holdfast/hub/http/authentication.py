"""Turn a request's credentials into one principal, or refuse them. Decides nothing about permissions.

The order is fixed: form, time, recipient, fleet, signature over the head, principal. The nonce is spent later, when the
request is also permitted and within its limits, so that a caller who may not ask cannot fill the store of nonces.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from holdfast.errors import Unauthenticated
from holdfast.model import canonical, ssh_key
from holdfast.model.principal import ANONYMOUS, Principal
from holdfast.trust import sessions, tokens
from holdfast.wire import http_signature, session_header

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.hub.http.served_fleet import ServedFleet
    from holdfast.model.session import SessionGrant
    from holdfast.ports.clock import Clock
    from holdfast.ports.nonces import Nonces
    from holdfast.wire.http_signature import Parsed

SESSIONS_MAX = 1_024  # certificates whose signature is remembered to hold
AUTHORIZATION = "Authorization"


class Bearers(Protocol):
    def principal_of(self, text: str) -> Principal:
        """The principal of this token; raises Unauthenticated. May read a disk."""
        ...


class Nodes(Protocol):
    def node_of_key(self, line: str) -> Principal | None: ...

    def refused_for_clock(self, line: str, ahead_s: float) -> None:
        """A request signed with this key was refused: the signer's clock is so far ahead of the hub's (or behind)."""
        ...


class Credential(Struct, frozen=True):
    """Who sent the request, and the signature that proved it; its nonce and body are not checked yet."""

    principal: Principal
    parsed: Parsed | None = None


class SkewedClock(Unauthenticated):
    """Carries the nonce of the request, so that the answer with the hub's time belongs to it alone."""

    def __init__(self, trouble: Unauthenticated, nonce: str) -> None:
        super().__init__(trouble.message, remedy=trouble.remedy, code=trouble.code)
        self.nonce = nonce


class Authentication:
    """`read` runs a blocking function on a reader thread."""

    def __init__(
        self,
        *,
        hub_key: str,
        served: ServedFleet,
        nodes: Nodes,
        bearers: Bearers,
        nonces: Nonces,
        clock: Clock,
        read: Callable[[Callable[[str], Principal], str], Awaitable[Principal]],
    ) -> None:
        self._to = ssh_key.fingerprint(ssh_key.parse(hub_key))
        self._served = served
        self._nodes = nodes
        self._bearers = bearers
        self._nonces = nonces
        self._clock = clock
        self._read = read
        self._proven: OrderedDict[str, SessionGrant] = OrderedDict()

    def is_known(self, headers: Mapping[str, str]) -> bool:
        """Does it claim a key that the hub knows? Costs nothing and proves nothing: it only chooses a queue."""
        said = headers.get(http_signature.INPUT, "")
        _, _, rest = said.partition('keyid="')
        line = f"ssh-ed25519 {rest.partition(chr(34))[0]}"
        session = headers.get(session_header.HEADER, "")
        return self._nodes.node_of_key(line) is not None or _name(session, line) in self._proven

    async def identify(self, method: str, target: str, headers: Mapping[str, str]) -> Credential:
        signed = http_signature.INPUT in headers or http_signature.SIGNATURE in headers
        if signed and AUTHORIZATION in headers:
            raise Unauthenticated(
                "the request is refused: it has both a signature and a token",
                remedy="send one of the two",
            )
        if AUTHORIZATION in headers:
            text = tokens.bearer(headers[AUTHORIZATION])
            return Credential(await self._read(self._bearers.principal_of, text))
        if not signed:
            return Credential(ANONYMOUS)
        parsed = http_signature.read(method, target, headers)
        self._check_time(parsed)
        self._check_recipient(parsed)
        self._check_fleet(parsed)
        http_signature.check_signature(parsed)
        return Credential(self._signer(parsed, headers), parsed)

    async def spend(self, credential: Credential) -> None:
        """The nonce, durably: the same request is refused from now on, also after a restart (W8)."""
        parsed = credential.parsed
        if parsed is None:
            return
        admitted = self._nonces.admit(parsed.line, parsed.nonce, parsed.replayable_until_s)
        if not await asyncio.wrap_future(admitted):
            raise Unauthenticated(
                "the request is refused: this request was received before, and each request is valid once",
                remedy="repeat the command, which signs a new request; if you did not run it, a recorded request was "
                "sent again: `holdfast audit` shows from where",
                code="replayed",
            )

    # ---- the order of checks

    def _check_time(self, parsed: Parsed) -> None:
        try:
            http_signature.check_time(parsed, self._clock.now_s())
        except Unauthenticated as trouble:
            self._note_clock(parsed)
            raise SkewedClock(trouble, parsed.nonce) from None

    def _note_clock(self, parsed: Parsed) -> None:
        """Only what the node itself signed for this hub counts; else a stranger could say so of any node (X23)."""
        with suppress(Unauthenticated):
            self._check_recipient(parsed)
            self._check_fleet(parsed)
            http_signature.check_signature(parsed)
            self._nodes.refused_for_clock(parsed.line, parsed.created_s - self._clock.now_s())

    def _check_recipient(self, parsed: Parsed) -> None:
        if parsed.to != self._to:
            raise Unauthenticated(
                f"the request is refused: it is meant for the machine with key {parsed.to}, this one has {self._to}",
                remedy="compare hub_key in fleet.toml with the key `holdfast hub check` prints on the hub's machine",
                code="other_recipient",
            )

    def _check_fleet(self, parsed: Parsed) -> None:
        if not self._served.is_named(parsed.fleet):
            raise Unauthenticated(
                "the request is refused: it is meant for another fleet",
                remedy="check --hub and --fleet: this directory and that hub do not belong together",
                code="other_fleet",
            )

    def _signer(self, parsed: Parsed, headers: Mapping[str, str]) -> Principal:
        text = headers.get(session_header.HEADER, "")
        if not text:
            return self._nodes.node_of_key(parsed.line) or Principal("joining", key=parsed.line)
        grant = self._grant(text, parsed.line)
        fleet, trust = self._served.trust()
        return sessions.admit(grant, fleet, trust, self._clock.now_s())

    def _grant(self, text: str, line: str) -> SessionGrant:
        """The certificate's signature is checked once and remembered; what may change is checked every time."""
        name = _name(text, line)
        found = self._proven.get(name)
        if found is None:
            found = self._proven[name] = sessions.prove(session_header.read(text), line)
            while len(self._proven) > SESSIONS_MAX:
                self._proven.popitem(last=False)
        self._proven.move_to_end(name)
        return found


def _name(session: str, line: str) -> str:
    return canonical.digest(f"{line}\n{session}".encode("utf-8", "surrogateescape"))
