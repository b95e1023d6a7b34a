"""Answers as HTTP: JSON, plain bytes, and every failure as {"code", "message", "remedy"}. Names no version."""

from collections.abc import Mapping

from aiohttp import web

from holdfast.errors import HoldfastError
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


def refusal(trouble: HoldfastError, *, writing: bool, allow: str = "") -> web.Response:
    status = faults.status(trouble, writing=writing)
    headers = {**HEADERS, faults.EXIT_HEADER: str(trouble.exit_code)}
    if status in (429, 503):
        headers["Retry-After"] = str(faults.RETRY_AFTER_S)
    if allow:
        headers["Allow"] = allow
    return web.Response(
        status=status, body=codec.write(faults.fault(trouble)), content_type="application/json", headers=headers
    )
