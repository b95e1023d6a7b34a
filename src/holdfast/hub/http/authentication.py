"""Who is speaking: a request's credentials become one principal, or the reason why not. Decides nothing about rights.

The order is fixed: form, time, recipient, fleet, signature over the head, principal. The nonce is spent later, when the
request is also permitted and within its limits, so that nobody fills the book of nonces who may not even ask.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from holdfast.errors import Unauthenticated
from holdfast.model import canonical, ssh_key
from holdfast.model.principal import ANONYMOUS, Principal
from holdfast.trust import sessions, tokens
from holdfast.wire import http_signature, session_header

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from holdfast.model.applied import Applied
    from holdfast.model.session import SessionGrant
    from holdfast.model.trust import Trust
    from holdfast.ports.clock import Clock
    from holdfast.ports.nonces import Nonces
    from holdfast.wire.http_signature import Parsed

SESSIONS_MAX = 1_024  # certificates whose signature is remembered to hold
AUTHORIZATION = "Authorization"


class Bearers(Protocol):
    def principal_of(self, text: str) -> Principal:
        """Who holds this token, or Unauthenticated. May read a disk."""
        ...


class Nodes(Protocol):
    def node_of_key(self, line: str) -> Principal | None: ...


class Credential(Struct, frozen=True):
    """Who speaks, and the signature that proved it, whose nonce and body are still to be looked at."""

    principal: Principal
    parsed: Parsed | None = None


class SkewedClock(Unauthenticated):
    """Carries the nonce of the request, so that the answer with the hub's time belongs to it alone."""

    def __init__(self, trouble: Unauthenticated, nonce: str) -> None:
        super().__init__(trouble.message, remedy=trouble.remedy, code=trouble.code)
        self.nonce = nonce


class Authentication:
    def __init__(
        self,
        hub_key: str,
        applied: Callable[[], Applied | None],
        nodes: Nodes,
        bearers: Bearers,
        nonces: Nonces,
        clock: Clock,
        founding: str = "",
        declared: Trust | None = None,
    ) -> None:
        """`founding` is the fleet this hub is pinned to: nodes name it even if their hub has lost every revision.

        `declared` is the trust of a fleet directory that is served unsigned, and has no revision.
        """
        self._to = ssh_key.fingerprint(ssh_key.parse(hub_key))
        self._applied = applied
        self._nodes = nodes
        self._bearers = bearers
        self._nonces = nonces
        self._clock = clock
        self._founding = founding
        self._declared = declared
        self._proven: OrderedDict[str, SessionGrant] = OrderedDict()

    @property
    def fleet(self) -> str:
        """As requests must name it."""
        applied = self._applied()
        return applied.fleet_id if applied is not None else http_signature.NO_FLEET

    def is_known(self, headers: Mapping[str, str]) -> bool:
        """Does it claim a key that is somebody's? Costs nothing and proves nothing: it only chooses a queue."""
        said = headers.get(http_signature.INPUT, "")
        _, _, rest = said.partition('keyid="')
        line = f"ssh-ed25519 {rest.partition(chr(34))[0]}"
        session = headers.get(session_header.HEADER, "")
        return self._nodes.node_of_key(line) is not None or _name(session, line) in self._proven

    async def identify(
        self, method: str, target: str, headers: Mapping[str, str], reads: Executor | None
    ) -> Credential:
        signed = http_signature.INPUT in headers or http_signature.SIGNATURE in headers
        if signed and AUTHORIZATION in headers:
            raise Unauthenticated(
                "the request is refused: it brings a signature and a token, and it is not clear whose it is",
                remedy="send one of the two",
            )
        if AUTHORIZATION in headers:
            text = tokens.bearer(headers[AUTHORIZATION])
            loop = asyncio.get_running_loop()
            return Credential(await loop.run_in_executor(reads, self._bearers.principal_of, text))
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
                "the request is refused: it was made before, and every request counts once",
                remedy="repeat the command, which signs a new one; if nobody did, somebody replays what he recorded: "
                "holdfast audit shows from where",
                code="replayed",
            )

    # ---- the order of checks

    def _check_time(self, parsed: Parsed) -> None:
        try:
            http_signature.check_time(parsed, self._clock.now_s())
        except Unauthenticated as trouble:
            raise SkewedClock(trouble, parsed.nonce) from None

    def _check_recipient(self, parsed: Parsed) -> None:
        if parsed.to != self._to:
            raise Unauthenticated(
                f"the request is refused: it is meant for the machine with key {parsed.to}, this one has {self._to}",
                remedy="compare [fleet] hub_key in fleet.toml with the key that holdfast hub run and hub check print",
                code="other_recipient",
            )

    def _check_fleet(self, parsed: Parsed) -> None:
        applied = self._applied()
        mine = {applied.fleet_id} if applied is not None else {http_signature.NO_FLEET, self._founding}
        if parsed.fleet not in mine:
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
        applied = self._applied()
        fleet, trust = (applied.fleet_id, applied.trust) if applied is not None else ("", self._declared)
        return sessions.admit(grant, fleet, trust, self._clock.now_s())

    def _grant(self, text: str, line: str) -> SessionGrant:
        """Proving costs a signature of any kind; it is remembered, what may change is asked every time."""
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
