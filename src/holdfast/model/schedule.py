"""Schedules of a service: as declared, and as the node that runs them reports them. Values only."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.schema import Duration, NameText, Table, Text, form

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
CronText = Annotated[
    str,
    form(
        r"^(@[a-z]+|[0-9A-Za-z*,/#-]+( +[0-9A-Za-z*,/#-]+){4})$",
        'five fields such as "30 3 * * *" (minute, hour, day of month, month, day of week), or "@daily"',
        200,
    ),
]
ZoneText = Annotated[str, form(r"^[A-Za-z][A-Za-z0-9_+/-]*$", 'a time zone such as "UTC" or "Europe/Oslo"', 64)]


class Schedule(Table, frozen=True):
    """A command that a component runs at certain minutes."""

    name: NameText
    component: NameText
    cron: CronText
    cmd: Annotated[tuple[Text, ...], Meta(min_length=1)]
    timezone: ZoneText = "UTC"
    timeout: Duration = "1h"
    overlap: Literal["skip", "queue"] = "skip"
    retries: Annotated[int, Meta(ge=0, le=10)] = 0

    @property
    def fields(self) -> str:
        """Its five fields."""
        return fields(self.cron)


def fields(cron: str) -> str:
    """The five fields of an expression or of one of its short names."""
    return ALIASES.get(cron, cron)


# ---- as reported ----------------------------------------------------------------------------------------------------


class RunResult(Struct, frozen=True, omit_defaults=True):
    """How a run ended. `lost`: it was started and its container is gone, so that its end is not known."""

    due_s: float  # its minute; the time of the order for a run by order
    started_s: float  # of its last attempt
    duration_s: float
    outcome: Literal["done", "failed", "timed_out", "lost"]
    exit_code: int | None = None  # None: its container did not start, or its end is not known
    attempts: int = 1
    message: str = ""
    lines: tuple[str, ...] = ()  # the last ones it wrote
    order: str = ""  # id of the order that asked for it


class ScheduleState(Struct, frozen=True, omit_defaults=True):
    service: str
    name: str
    cron: str
    timezone: str = "UTC"
    next_s: float = 0.0  # 0: no minute matches
    idle: str = ""  # why no run is begun now
    running_s: float = 0.0  # since when a run is under way; 0: none is
    attempt: int = 0
    queued: int = 0
    last: RunResult | None = None
    missed: int = 0  # since the last run that was done
    missed_s: float = 0.0  # the newest of these
    skipped: int = 0  # since the last run that was done: the run before was under way
    ordered: tuple[RunResult, ...] = ()  # the newest runs by order before `last`: their commands may still wait


class ScheduleStates(Struct, frozen=True):
    """The schedules in a report. Readers take only this of it."""

    schedules: tuple[ScheduleState, ...] = ()
