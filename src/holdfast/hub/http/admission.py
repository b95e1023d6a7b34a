"""Admit a request: who sends it, that this kind of caller may, not too often, and not a second time.

Nothing is read, remembered or written for a caller before it is known who it is and that it may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.hub.http import limiter as limiting
from holdfast.hub.http import permissions
from holdfast.model.principal import ANONYMOUS

if TYPE_CHECKING:
    from holdfast.hub.http.authentication import Authentication
    from holdfast.hub.http.limiter import Limiter
    from holdfast.hub.http.request import Request
    from holdfast.ports.clock import Clock

STRANGERS = frozenset({"anonymous", "joining", "founder"})  # what a caller with a fresh key can be


class Admission:
    def __init__(self, authentication: Authentication, limiter: Limiter, clock: Clock) -> None:
        self._authentication = authentication
        self._limiter = limiter
        self._clock = clock

    async def admit(self, request: Request) -> None:
        """Returns if the request may be handled; else raises the refusal."""
        connection, route = request.connection, request.route
        now_s = self._clock.monotonic_s()
        if not connection.identity and not self._authentication.is_known(request.received.headers):
            self._limiter.stranger(connection.address, now_s)
        if route is not None and route.operation in permissions.PUBLIC:
            self._limiter.was_stranger(connection.address, now_s)
            return
        await self._identify(request, now_s)
        if route is not None or request.principal is ANONYMOUS:
            trouble = permissions.may(request.principal, route.operation if route is not None else "")
            if trouble is not None:
                raise trouble
        if request.principal is ANONYMOUS:
            return
        self._limiter.request(request.principal, now_s)
        await self._authentication.spend(request.credential)
        if request.principal.kind not in STRANGERS:
            connection.identify(limiting.identity(request.principal))

    async def _identify(self, request: Request, now_s: float) -> None:
        received, connection = request.received, request.connection
        try:
            request.credential = await self._authentication.identify(received.method, request.target, received.headers)
        finally:
            if request.principal.kind in STRANGERS:
                self._limiter.was_stranger(connection.address, now_s)
                request.closes = bool(connection.identity)
