"""Check the schedules of a service: names, component, cron expression, time zone."""

from collections.abc import Mapping

from holdfast.declared import names, spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.words import Path, shown
from holdfast.model.fleet import Service
from holdfast.model.schedule import ALIASES, fields

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
        check_cron(file, (*where, "cron"), schedule.cron, flaws)
        check_zone(file, (*where, "timezone"), schedule.timezone, flaws)
    if len(named) > 1:
        names.check(file, named, "schedule of this service", flaws)


def check_cron(file: str, where: Path, cron: str, flaws: Flaws) -> None:
    if why := _cron_trouble(cron):
        remedy = 'write five fields such as "30 3 * * *", or one of: ' + ", ".join(ALIASES)
        flaws.add_checked(file, where, f"{shown(cron)} is not a cron expression: {why}", remedy)


def check_zone(file: str, where: Path, timezone: str, flaws: Flaws) -> None:
    if not is_zone(timezone):
        flaws.add_checked(file, where, f"there is no time zone {shown(timezone)}", ZONES)


def _cron_trouble(cron: str) -> str:
    from datetime import UTC, datetime

    from cronsim import CronSim, CronSimError

    if cron.startswith("@") and cron not in ALIASES:
        return "no such alias"
    try:
        next(CronSim(fields(cron), datetime(2026, 1, 1, tzinfo=UTC)))
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
