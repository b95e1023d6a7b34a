"""Who calls a node: its hub, an operator of the trust it accepted, or a node that it has to do with. Decides nothing
about permissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import Unauthenticated
from holdfast.model import ssh_key
from holdfast.model.principal import Principal
from holdfast.trust import sessions
from holdfast.wire import http_signature, session_header

if TYPE_CHECKING:
    from holdfast.model.trust import Trust
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey


class KnownFleet(Protocol):
    """The fleet this node belongs to."""

    def hub_key(self) -> str: ...

    def fleet(self) -> str:
        """The fleet id; "" before the first revision was accepted."""
        ...

    def trust(self) -> Trust | None: ...

    def node_of(self, line: str) -> str:
        """The node with this key, if it is one that asks this node for needs, or holds what it got here; else ""."""
        ...


class Callers:
    def __init__(self, node: KnownFleet, key: IdentityKey, clock: Clock) -> None:
        self._node = node
        self._key = key
        self._to = ssh_key.fingerprint(ssh_key.parse(key.line))
        self._clock = clock

    def principal(self, parsed: http_signature.Parsed, headers: Mapping[str, str]) -> Principal:
        http_signature.check_time(parsed, self._clock.now_s())
        if parsed.to != self._to:
            raise stranger("the request was made for another machine", "other_recipient")
        fleet = self._node.fleet()
        if parsed.fleet != (fleet or http_signature.NO_FLEET):
            raise stranger("the request was made for another fleet", "other_fleet")
        http_signature.check_signature(parsed)
        if ssh_key.parse(parsed.line).blob == ssh_key.parse(self._node.hub_key()).blob:
            return Principal("hub", "hub", parsed.line)
        if name := self._node.node_of(parsed.line):
            return Principal("node", name, parsed.line)
        certificate = next((v for k, v in headers.items() if k.lower() == session_header.HEADER.lower()), None)
        trust = self._node.trust()
        if certificate is None or trust is None:
            raise stranger(
                "its key is none of the hub's, an operator's session's or a node's with a need here",
                "unknown_key",
            )
        return sessions.verify_session(session_header.read(certificate), parsed.line, fleet, trust, self._clock.now_s())

    def signed_time(self, parsed: http_signature.Parsed) -> dict[str, str]:
        """For a caller whose clock differs: the time of this node, signed, so that the caller can compare."""
        now_s = self._clock.now_s()
        if abs(parsed.created_s - now_s) <= http_signature.WINDOW_S:
            return {}
        return http_signature.sign_response(self._key, 401, int(now_s), parsed.nonce)


def stranger(why: str, code: str) -> Unauthenticated:
    return Unauthenticated(
        f"the request is refused: {why}",
        remedy="ask through the hub; from outside a node answers its hub and its operators: holdfast node show NAME",
        code=code,
    )
