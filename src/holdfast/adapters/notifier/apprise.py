"""Send an alert through Apprise, each in a process of its own without power (apprise_sender.py, X04)."""

import asyncio
import sys
from contextlib import suppress

import msgspec

from holdfast.adapters.notifier.command import ended
from holdfast.adapters.notifier.targets import Targets
from holdfast.errors import TryLater
from holdfast.model.alert import Alert

SEND_S = 30.0
SENDER = "holdfast.adapters.notifier.apprise_sender"
_TEXT_MAX = 16 * 1024
_ANSWER_MAX = 512


class AppriseNotifier:
    def __init__(self, name: str, url: str, targets: Targets, send_s: float = SEND_S) -> None:
        self.name = name
        self._url = url
        self._targets = targets
        self._send_s = send_s

    async def send(self, alert: Alert) -> None:
        process = await self._started()
        try:
            async with asyncio.timeout(self._send_s):
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(self._message(alert))
                with suppress(ConnectionError):
                    process.stdin.close()
                answer = await process.stdout.read(_ANSWER_MAX)
                code = await process.wait()
        except TimeoutError:
            raise self._undelivered(f"it took longer than {self._send_s:.0f} s") from None
        finally:
            await ended(process)
        if code != 0:
            why = "".join(c if c.isprintable() else " " for c in answer.decode(errors="replace")).strip()
            raise self._undelivered(why or f"its process ended with code {code}")

    async def _started(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-B", "-m", SENDER),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                cwd="/",
                close_fds=True,
                start_new_session=True,
            )
        except OSError as trouble:
            raise self._undelivered(f"its process cannot be started: {trouble.strerror}") from None

    def _message(self, alert: Alert) -> bytes:
        body = f"{alert.message}\n{alert.remedy}"[:_TEXT_MAX]
        fields = {
            "url": self._url,
            "title": f"{alert.code} {alert.address}",
            "body": body,
            "is_alarm": alert.level == "alarm",
            "targets": self._targets,
        }
        return msgspec.json.encode(fields)

    def _undelivered(self, why: str) -> TryLater:
        return TryLater(
            f"the Apprise target {self.name} did not accept the alert: {why}",
            remedy=f"correct the URL of [[alerts]] {self.name} in fleet.toml, then: holdfast apply",
            code="alert_undelivered",
        )
