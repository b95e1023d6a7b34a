"""Responses of the hub: JSON, plain bytes, and every failure as {"code", "message", "remedy"}. Names no version."""

import math
from collections.abc import Mapping

from holdfast.errors import HoldfastError, Invalid, Limited
from holdfast.ports.http_server import JSON, Response
from holdfast.wire import codec, faults

HEADERS: Mapping[str, str] = {
    "Server": "holdfast",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
BYTES = "application/octet-stream"


def answer(body: bytes, content_type: str = JSON, *, closes: bool = False) -> Response:
    return Response(200, body, HEADERS, content_type, closes)


def refusal(
    trouble: HoldfastError,
    *,
    writing: bool,
    allow: str = "",
    more: Mapping[str, str] | None = None,
    closes: bool = False,
) -> Response:
    status = faults.status(trouble, writing=writing)
    headers = {**HEADERS, faults.EXIT_HEADER: str(trouble.exit_code), **(more or {})}
    if status in (429, 503):
        wait_s = trouble.retry_after_s if isinstance(trouble, Limited) else faults.RETRY_AFTER_S
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="holdfast"'
    if allow:
        headers["Allow"] = allow
    return Response(status, codec.write(faults.fault(trouble)), headers, closes=closes)


def malformed() -> Response:
    """To bytes that are not HTTP."""
    bad = Invalid("this is not an HTTP request the hub accepts", remedy="send HTTP/1.1 within the limits")
    return refusal(bad, writing=False, closes=True)
