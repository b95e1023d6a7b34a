"""Send an alert as JSON to a webhook URL. Follows no redirect; reads only the status of the answer."""

import asyncio

import msgspec

from holdfast.errors import TryLater
from holdfast.model.alert import Alert

SEND_S = 10.0


class WebhookNotifier:
    """`name` is shown to people; the URL may contain a secret and is never shown."""

    def __init__(self, name: str, url: str, send_s: float = SEND_S) -> None:
        self.name = name
        self._url = url
        self._send_s = send_s

    async def send(self, alert: Alert) -> None:
        import aiohttp

        try:
            async with (
                asyncio.timeout(self._send_s),
                aiohttp.ClientSession(
                    auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
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
            raise self._undelivered(type(trouble).__name__) from None  # the exception's text may contain the URL
        if not 200 <= status < 300:
            raise self._undelivered(f"HTTP status {status}")

    def _undelivered(self, why: str) -> TryLater:
        return TryLater(
            f"the webhook {self.name} did not accept the alert: {why}",
            remedy=f"correct the url of [[alerts]] {self.name} in fleet.toml, then: holdfast apply",
            code="alert_undelivered",
        )
