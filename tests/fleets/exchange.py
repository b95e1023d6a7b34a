"""A request to a handler of the hub, without a server around it."""

from typing import Any

from holdfast.hub.http import request as hub_request
from holdfast.hub.http.authentication import Credential
from holdfast.model.principal import ANONYMOUS, Principal
from holdfast.ports.http_server import Connection, Request, Response


class NoExchange:
    """Handlers that only compute an answer do not use it."""

    request = Request("GET", "/", {})

    @property
    def connection(self) -> Connection:
        raise AssertionError("this handler needs no connection")

    def is_gone(self) -> bool:
        return False

    async def proceed(self) -> None:
        raise AssertionError("the body was read already")

    async def piece(self) -> bytes:
        raise AssertionError("the body was read already")

    async def send(self, response: Response) -> None:
        raise AssertionError("a handler sends nothing")


def asked(
    path: dict[str, Any] | None = None,
    query: dict[str, Any] | None = None,
    body: bytes = b"",
    principal: Principal = ANONYMOUS,
) -> hub_request.Request:
    """As it reaches a handler: after every check."""
    made = hub_request.Request(NoExchange())
    made.path, made.query, made.body = path or {}, query or {}, body
    made.credential = Credential(principal)
    return made
