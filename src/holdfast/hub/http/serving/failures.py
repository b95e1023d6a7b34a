"""Turn a failure into a response: refusals go to the audit log, faults of the hub to its own log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.errors import Failed, HoldfastError, Limited, NotPermitted, SignatureRequired, Unauthenticated
from holdfast.hub.http.authentication import SkewedClock
from holdfast.hub.http.routes import MethodNotAllowed
from holdfast.hub.http.serving.responses import refusal
from holdfast.wire import http_signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.hub.http.denials import Denials
    from holdfast.hub.http.request import Request
    from holdfast.ports.clock import Clock
    from holdfast.ports.http_server import Response
    from holdfast.ports.identity_key import IdentityKey

log = logging.getLogger("holdfast.hub")

COMPLAIN_AGAIN_S = 3_600.0


class Failures:
    """`key` signs the time for callers whose clock is wrong; `fleet` is the fleet that requests must name."""

    def __init__(self, denials: Denials, key: IdentityKey, clock: Clock, fleet: Callable[[], str]) -> None:
        self._denials = denials
        self._key = key
        self._clock = clock
        self._fleet = fleet
        self._complained: dict[str, float] = {}  # when the hub's log last had this code

    def response(self, request: Request, trouble: HoldfastError) -> Response:
        if isinstance(trouble, Failed):
            trouble = self._own(trouble)
        refused = isinstance(trouble, NotPermitted | SignatureRequired) or request.route is None
        if refused and not isinstance(trouble, Limited) and not request.audited_by_fleet:
            self._denials.record(request.event(trouble))
        return refusal(
            trouble,
            writing=_is_writing(request),
            allow=trouble.allow if isinstance(trouble, MethodNotAllowed) else "",
            more=self._hint(trouble),
            closes=request.closes or trouble.code == "request_timeout",
        )

    def unforeseen(self, request: Request) -> Response:
        """Called where an exception is handled that no rule expects."""
        log.exception("a request failed for an unforeseen reason")
        trouble = Failed(
            "the hub failed to answer this request",
            remedy="look into the hub's log and report it",
            code="internal",
        )
        return refusal(trouble, writing=_is_writing(request), closes=request.closes)

    async def close(self) -> None:
        """Every refusal is in the audit log when this returns."""
        await self._denials.close()

    def _own(self, trouble: Failed) -> Failed:
        """The fault is the hub's: the caller learns whose, the hub's log has it once, however many ask meanwhile."""
        now_s = self._clock.monotonic_s()
        if now_s - self._complained.get(trouble.code, -COMPLAIN_AGAIN_S) >= COMPLAIN_AGAIN_S:
            self._complained[trouble.code] = now_s
            log.error("%s: %s; %s", trouble.code, trouble.message, trouble.remedy)
        return Failed(f"on the hub: {trouble.message}", remedy=f"on the hub: {trouble.remedy}", code=trouble.code)

    def _hint(self, trouble: HoldfastError) -> dict[str, str]:
        """What the caller needs for the next attempt: the hub's time, signed; the fleet that is served here."""
        if isinstance(trouble, Unauthenticated) and trouble.code == "other_fleet":
            return {http_signature.FLEET: self._fleet()}
        if not isinstance(trouble, SkewedClock):
            return {}
        return http_signature.sign_response(self._key, 401, int(self._clock.now_s()), trouble.nonce)


def _is_writing(request: Request) -> bool:
    return request.received.method == "POST"
