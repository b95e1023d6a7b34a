"""An aiohttp session that follows nothing and keeps nothing: no proxy, no cookies, no decompression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    import ssl


def bounded_session(context: ssl.SSLContext, connections_max: int, **kept: Any) -> aiohttp.ClientSession:
    """`kept` says how connections are kept: aiohttp's keepalive_timeout or force_close."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=connections_max, use_dns_cache=False, **kept),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # no proxy from the environment
        auto_decompress=False,  # an answer must not grow while it is read
        headers={"User-Agent": "holdfast", "Accept": "application/json", "Accept-Encoding": "identity"},
    )
