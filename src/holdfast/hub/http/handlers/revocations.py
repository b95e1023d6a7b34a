"""Revocations: shut a node's key out at once."""

from typing import Protocol

from holdfast.hub.http.operation import OPERATORS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import REFUSED, Route
from holdfast.model.invite import SignedRevocation
from holdfast.model.principal import Principal
from holdfast.wire import codec, messages

REVOKE = Operation("revoke", "submit a signed revocation of a node's key", OPERATORS)


class RevokingFleet(Protocol):
    """It writes its own refusals into the audit log."""

    async def revoke(self, principal: Principal, signed: SignedRevocation, source: str) -> None: ...


class Revocations:
    def __init__(self, fleet: RevokingFleet) -> None:
        self._fleet = fleet

    async def revoke(self, request: Request) -> bytes:
        await self._fleet.revoke(request.principal, codec.read(request.body, SignedRevocation), request.source)
        return codec.write(messages.RevocationTaken())


ROUTES = (
    Route(
        "POST",
        "/v1/revocations",
        REVOKE,
        "Shut a node's key out at once; needs operators' signatures",
        Revocations,
        Revocations.revoke,
        messages.RevocationTaken,
        SignedRevocation,
        cost="fleet",
        refusals=REFUSED,
    ),
)
