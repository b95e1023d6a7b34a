"""Answers as HTTP: JSON, plain bytes, and every failure as {"code", "message", "remedy"}. Names no version."""

import math
from collections.abc import Mapping

from aiohttp import web

from holdfast.errors import HoldfastError, Limited
from holdfast.wire import codec, faults

HEADERS: Mapping[str, str] = {
    "Server": "holdfast",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
JSON = "application/json"
BYTES = "application/octet-stream"


def answer(body: bytes, content_type: str = JSON) -> web.Response:
    return web.Response(body=body, content_type=content_type, headers=HEADERS)


def refusal(
    trouble: HoldfastError, *, writing: bool, allow: str = "", more: Mapping[str, str] | None = None
) -> web.Response:
    status = faults.status(trouble, writing=writing)
    headers = {**HEADERS, faults.EXIT_HEADER: str(trouble.exit_code), **(more or {})}
    if status in (429, 503):
        wait_s = trouble.retry_after_s if isinstance(trouble, Limited) else faults.RETRY_AFTER_S
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="holdfast"'
    if allow:
        headers["Allow"] = allow
    return web.Response(
        status=status, body=codec.write(faults.fault(trouble)), content_type="application/json", headers=headers
    )
