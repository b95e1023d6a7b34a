"""The times that the revision in force declares for backups and drills."""

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError
from holdfast.model import duration, schedule
from holdfast.ports.calendar import Calendar
from holdfast.reconcile.backup_times import At, Every, Times, longest_pause_s

UNREADABLE = "backup_times_unreadable"


class DeclaredTimes:
    """An expression is read once: its longest pause takes up to a tenth of a second."""

    def __init__(self, calendar: Calendar, now_s: Callable[[], float], findings: Findings) -> None:
        self._calendar = calendar
        self._now_s = now_s
        self._findings = findings
        self._known: dict[tuple[str, str], At] = {}
        self._unread: dict[str, str] = {}  # key of [backups] → why this node cannot read it

    def of(self, key: str, interval: str, cron: str | UnsetType, timezone: str) -> Times:
        """A node that cannot read the expression of this key keeps to the interval, and says so."""
        times: Times = Every(duration.milliseconds(interval) / 1000)
        self._unread.pop(key, None)
        try:
            if cron is not UNSET:
                times = self._known.get((cron, timezone)) or self._read(cron, timezone)
        except HoldfastError as trouble:
            self._unread[key] = f"{trouble.message}; {key} of [backups] is every {interval} instead"
        self._tell()
        return times

    def _read(self, cron: str, timezone: str) -> At:
        fields = schedule.fields(cron)
        longest_s = longest_pause_s(self._calendar.minutes(fields, timezone, self._now_s()))
        self._known[cron, timezone] = At(lambda after_s: self._calendar.minutes(fields, timezone, after_s), longest_s)
        return self._known[cron, timezone]

    def _tell(self) -> None:
        if self._unread:
            remedy = "correct cron and timezone of [backups]; `holdfast validate` checks both"
            self._findings.add(UNREADABLE, "; ".join(self._unread.values()), remedy)
        else:
            self._findings.clear(UNREADABLE)
