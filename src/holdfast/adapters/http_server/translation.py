"""aiohttp's requests and responses as the values of the port, and back. The hub's and a node's server share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from holdfast.errors import Invalid
from holdfast.ports.http_server import Request

if TYPE_CHECKING:
    from holdfast.ports.http_server import Response


def request_of(received: web.BaseRequest, source: str) -> Request:
    url = received.rel_url
    return Request(
        received.method,
        received.raw_path,
        received.headers,
        source,
        url.raw_path,
        tuple(url.query.items()) if url.raw_query_string else (),
        tuple(received.headers.items()),
        received.content_length or 0,
    )


def response_of(response: Response) -> web.Response:
    made = web.Response(
        status=response.status, body=response.body, content_type=response.content_type, headers=response.headers
    )
    if response.closes:
        made.force_close()
    return made


async def piece_of(received: web.BaseRequest) -> bytes:
    """The next bytes of the body; b"" at its end."""
    try:
        return await received.content.readany()
    except (web.RequestPayloadError, HttpProcessingError):
        raise Invalid("the body of this request is malformed", remedy="send the request again") from None
