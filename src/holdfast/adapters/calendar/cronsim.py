"""Cron expressions as Debian's cron reads them (cronsim), in a time zone (zoneinfo)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.errors import Failed


class CronCalendar:
    def minutes(self, cron: str, timezone: str, after_s: float) -> Iterator[float]:
        try:
            zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
            matching = CronSim(cron, datetime.fromtimestamp(int(after_s), UTC).astimezone(zone))
        except (CronSimError, LookupError, ValueError, OSError) as trouble:
            raise Failed(
                f"{cron!r} in {timezone!r} cannot be read on this node: {trouble}",
                remedy="correct cron and timezone; `holdfast validate` checks both",
                code="schedule_unreadable",
            ) from trouble
        newest_s = after_s
        for one in matching:
            at_s = one.timestamp()
            if at_s > newest_s:  # a fixed time in the hour that comes twice is the first one, which may be over
                newest_s = at_s
                yield at_s
