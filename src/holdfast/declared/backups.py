"""Check `[backups]`: each time is said once, as an interval or as a cron expression. Pure."""

from collections.abc import Collection

from msgspec import UNSET

from holdfast.declared import schedules
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.model.fleet import Backups

EITHER = (("interval", "cron"), ("drill_interval", "drill_cron"))


def check(backups: Backups, written: Collection[str], flaws: Flaws) -> None:
    """`written`: the keys of the table in the file."""
    if flaws.touch(FLEET_FILE, ("backups",)):
        return
    for interval, cron in EITHER:
        if interval in written and cron in written:
            what = f"{interval} and {cron} are both written"
            flaws.add_checked(FLEET_FILE, ("backups", cron), what, f"remove {interval} or {cron}")
    for key in ("cron", "drill_cron"):
        if (cron := getattr(backups, key)) is not UNSET:
            schedules.check_cron(FLEET_FILE, ("backups", key), cron, flaws)
    schedules.check_zone(FLEET_FILE, ("backups", "timezone"), backups.timezone, flaws)
    if "timezone" in written and backups.cron is UNSET and backups.drill_cron is UNSET:
        what = "it is the time zone of cron and drill_cron, and neither is written"
        flaws.add_checked(FLEET_FILE, ("backups", "timezone"), what, "remove it, or write cron")
