"""Send an alert as JSON to a webhook URL. Follows no redirect; reads only the status of the answer.

It connects only to an address that it has judged (targets.py).
"""

import asyncio
import socket
from typing import TYPE_CHECKING

import msgspec

from holdfast.adapters.notifier.targets import Targets
from holdfast.errors import TryLater
from holdfast.model.alert import Alert

if TYPE_CHECKING:
    from aiohttp.connector import AddrInfoType

SEND_S = 10.0


class WebhookNotifier:
    """`name` is shown to people; the URL may contain a secret and is never shown."""

    def __init__(self, name: str, url: str, targets: Targets, send_s: float = SEND_S) -> None:
        self.name = name
        self._url = url
        self._targets = targets
        self._send_s = send_s

    async def send(self, alert: Alert) -> None:
        import aiohttp

        refused: list[str] = []

        def open_socket(found: "AddrInfoType") -> socket.socket:
            """Right before the connection to this address, so that a name cannot mean another one then."""
            if (why := self._targets.complaint(str(found[4][0]))) is not None:
                refused.append(why)
                raise PermissionError(why)
            return socket.socket(*found[:3])

        try:
            async with (
                asyncio.timeout(self._send_s),
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(socket_factory=open_socket),
                    auto_decompress=False,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trust_env=False,
                ) as session,
                session.post(
                    self._url,
                    data=msgspec.json.encode(alert),
                    headers={"Content-Type": "application/json", "User-Agent": "holdfast"},
                    allow_redirects=False,
                ) as answer,
            ):
                status = answer.status
        except TimeoutError:
            raise self._undelivered(f"no answer within {self._send_s:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as trouble:
            # The exception's text may contain the URL.
            raise self._undelivered(refused[0] if refused else type(trouble).__name__) from None
        if not 200 <= status < 300:
            raise self._undelivered(f"HTTP status {status}")

    def _undelivered(self, why: str) -> TryLater:
        return TryLater(
            f"the webhook {self.name} did not accept the alert: {why}",
            remedy=f"correct the url of [[alerts]] {self.name} in fleet.toml, then: holdfast apply",
            code="alert_undelivered",
        )
