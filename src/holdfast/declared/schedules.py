"""Check the schedules of a service: names, component, cron expression, time zone."""

from collections.abc import Mapping

from holdfast.declared import names, spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.words import Path, shown
from holdfast.model.fleet import Service
from holdfast.model.schedule import ALIASES, Schedule

MEANINGS: Mapping[str, str] = {
    "name": "the name of the schedule",
    "component": "the component whose image, variables, secrets and volumes a run gets",
    "cron": "the minutes: five fields (minute, hour, day of month, month, day of week), or `@hourly`, `@daily`, "
    "`@weekly`, `@monthly`, `@yearly`",
    "cmd": "the command, in a container of its own beside the service. An image with an entrypoint gets it as "
    "arguments, as with `podman run IMAGE`",
    "timezone": "the time zone of `cron`",
    "timeout": "how long one attempt may take; then it is ended and has failed",
    "overlap": "if the run before is under way: `skip` leaves this one out, `queue` lets it wait",
    "retries": "how many further attempts a run has that failed",
}
ZONES = 'write a name such as "Europe/Oslo"; without the key it is UTC'


def check(file: str, service: Service, flaws: Flaws) -> None:
    known = {component.name for component in service.components}
    named: list[tuple[str, Path]] = []
    for at, schedule in enumerate(service.schedule):
        where: Path = ("schedule", at)
        named.append((schedule.name, where))
        if schedule.component not in known:
            remedy = spelling.question(schedule.component, known) or f"one of: {', '.join(sorted(known))}"
            what = f"there is no component {shown(schedule.component)} in this service"
            flaws.add_checked(file, (*where, "component"), what, remedy)
        if why := _cron_trouble(schedule):
            remedy = 'write five fields such as "30 3 * * *", or one of: ' + ", ".join(ALIASES)
            flaws.add_checked(file, (*where, "cron"), f"{shown(schedule.cron)} is not a cron expression: {why}", remedy)
        if not is_zone(schedule.timezone):
            what = f"there is no time zone {shown(schedule.timezone)}"
            flaws.add_checked(file, (*where, "timezone"), what, ZONES)
    if len(named) > 1:
        names.check(file, named, "schedule of this service", flaws)


def _cron_trouble(schedule: Schedule) -> str:
    from datetime import UTC, datetime

    from cronsim import CronSim, CronSimError

    if schedule.cron.startswith("@") and schedule.cron not in ALIASES:
        return "no such alias"
    try:
        next(CronSim(schedule.fields, datetime(2026, 1, 1, tzinfo=UTC)))
    except CronSimError as trouble:
        return str(trouble).lower()
    except StopIteration:
        return "no minute matches it"
    return ""


def is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return False
    return True
