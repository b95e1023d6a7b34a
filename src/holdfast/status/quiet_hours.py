"""Quiet hours of an alert target: when they end, and which alerts are sent in them; shared by hub and agents. Pure."""

from msgspec import UNSET, Struct

from holdfast.model.fleet import AlertTarget
from holdfast.ports.calendar import Calendar


class QuietHours(Struct, frozen=True):
    """`begins` and `ends` are cron expressions: they match once a day, also where clocks are changed."""

    begins: str
    ends: str
    timezone: str
    sent: tuple[str, ...] = ()  # codes of alarms


def of(target: AlertTarget) -> QuietHours | None:
    if target.quiet is UNSET:
        return None
    begins, _, ends = target.quiet.partition("-")
    return QuietHours(_cron(begins), _cron(ends), target.timezone, target.quiet_except)


def until_s(quiet: QuietHours, calendar: Calendar, now_s: float) -> float | None:
    """When the quiet hours of now are over; None: it is not quiet. Raises Failed if the time zone is not known here."""
    begins = calendar.minutes(quiet.begins, quiet.timezone, now_s)
    ends = calendar.minutes(quiet.ends, quiet.timezone, now_s)
    begins_s, ends_s = next(begins), next(ends)
    if ends_s == begins_s:  # a clock that is put forward skips one of them: the next day tells which comes first
        return ends_s if next(ends) < next(begins) else None
    return ends_s if ends_s < begins_s else None


def _cron(time: str) -> str:
    hour, _, minute = time.partition(":")
    return f"{int(minute)} {int(hour)} * * *"
