"""Send an alert through Apprise, which supports many services by URL. Imported on first use, in a thread."""

import asyncio
import logging
from typing import Any

from holdfast.errors import TryLater
from holdfast.model.alert import Alert

SEND_S = 30.0


class AppriseNotifier:
    def __init__(self, name: str, url: str, send_s: float = SEND_S) -> None:
        self.name = name
        self._url = url
        self._send_s = send_s
        self._service: Any = None

    async def send(self, alert: Alert) -> None:
        try:
            async with asyncio.timeout(self._send_s):
                sent = await asyncio.get_running_loop().run_in_executor(None, self._send, alert)
        except TimeoutError:
            raise self._undelivered(f"it took longer than {self._send_s:.0f} s") from None
        except Exception as trouble:  # plugins raise arbitrary exceptions
            raise self._undelivered(type(trouble).__name__) from None
        if not sent:
            raise self._undelivered("the service did not accept it")

    def _send(self, alert: Alert) -> bool:
        import apprise

        if self._service is None:
            # Apprise logs URLs with their secrets; our own error below is enough.
            logging.getLogger("apprise").setLevel(logging.CRITICAL)
            service = apprise.Apprise()
            if not service.add(self._url):
                return False
            self._service = service
        kind = apprise.NotifyType.FAILURE if alert.level == "alarm" else apprise.NotifyType.SUCCESS
        return bool(
            self._service.notify(
                title=f"{alert.code} {alert.address}", body=f"{alert.message}\n{alert.remedy}", notify_type=kind
            )
        )

    def _undelivered(self, why: str) -> TryLater:
        return TryLater(
            f"the Apprise target {self.name} did not accept the alert: {why}",
            remedy=f"correct the URL of [[alerts]] {self.name} in fleet.toml, then: holdfast apply",
            code="alert_undelivered",
        )
