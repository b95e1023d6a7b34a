"""One alert target and what is still to be sent to it, in the order in which it was raised. Sends nothing itself."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.model.alert import Alert
from holdfast.model.alert_codes import RECOVERY_OF
from holdfast.ports.calendar import Calendar
from holdfast.ports.notifier import Notifier
from holdfast.status import quiet_hours
from holdfast.status.quiet_hours import QuietHours

log = logging.getLogger("holdfast.alarms")

REST_S_MAX = 60.0  # in quiet hours: a clock may be set


class Outgoing(Struct, frozen=True, omit_defaults=True):
    """An alert in the ledger until every target received it, or could not for an hour. `about` is the same for an alarm
    and its recovery; `done` names the targets that need it no more."""

    id: str
    alert: Alert
    about: str = ""
    done: tuple[str, ...] = ()

    @property
    def trouble(self) -> tuple[str, str, str]:
        """What an alarm and its recovery have in common."""
        return self.about, self.alert.address, RECOVERY_OF.get(self.alert.code) or self.alert.code


class Line:
    """`quiet`: while it holds, alerts wait, but for the alarms it names and their recoveries."""

    def __init__(
        self,
        notifier: Notifier,
        on: Sequence[str] = (),
        queue: Iterable[Outgoing] = (),
        quiet: QuietHours | None = None,
        calendar: Calendar | None = None,
    ) -> None:
        self.notifier = notifier
        self.on = frozenset(on)
        self.queue = deque(queue)
        self.task: asyncio.Task[None] | None = None
        self.trouble = ""
        self.lost = 0
        self.since_s = 0.0
        self._quiet = quiet
        self._calendar = calendar
        self._bell = asyncio.Event()

    def wants(self, alert: Alert) -> bool:
        """A target without a list wants every alert. One that wants an alarm also wants its recovery."""
        return not self.on or alert.code in self.on or RECOVERY_OF.get(alert.code) in self.on

    def quiet_until_s(self, now_s: float) -> float | None:
        """None: it is not quiet. A time zone that is not known here keeps no alert back."""
        if self._quiet is None or self._calendar is None:
            return None
        try:
            return quiet_hours.until_s(self._quiet, self._calendar, now_s)
        except HoldfastError as trouble:
            log.warning("the quiet hours of %s are not kept: %s", self.notifier.name, trouble)
            self._quiet = None
            return None

    def holds(self, outgoing: Outgoing, now_s: float) -> bool:
        """It is quiet, and this alert has to wait."""
        return not self._is_sent_always(outgoing) and self.quiet_until_s(now_s) is not None

    def _is_sent_always(self, outgoing: Outgoing) -> bool:
        return self._quiet is None or outgoing.trouble[2] in self._quiet.sent

    def take(self, outgoing: Outgoing, now_s: float) -> list[Outgoing]:
        """Append it; or, if its own alarm is held back and no person heard of it, drop both: these are returned."""
        ended = self._alarm_of(outgoing) if self.holds(outgoing, now_s) else None
        if ended is not None:
            self.queue.remove(ended)
            return [ended, outgoing]
        self.queue.append(outgoing)
        self._bell.set()
        return []

    def _alarm_of(self, outgoing: Outgoing) -> Outgoing | None:
        if outgoing.alert.level != "recovery":
            return None
        return next((one for one in reversed(self.queue) if one.trouble == outgoing.trouble), None)

    def ready(self, now_s: float) -> Outgoing | None:
        """The first that may be sent now."""
        if self.quiet_until_s(now_s) is None:
            return self.queue[0] if self.queue else None
        return next((one for one in self.queue if self._is_sent_always(one)), None)

    async def rest(self, now_s: float) -> None:
        """Until the quiet hours are over or something was appended, for a minute at most."""
        until_s = self.quiet_until_s(now_s)
        self._bell.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(REST_S_MAX, until_s - now_s if until_s is not None else 0.0)):
                await self._bell.wait()
