"""`[backups]` in fleet.toml: each time as an interval or as a cron expression, and every mistake told at its key."""

import pytest

from tests.specs.declared.declared_fleets import FLEET, fleet_of, only_problem, with_fleet


def test_cron_expressions_are_read_in_place_of_intervals() -> None:
    text = '[backups]\ncron = "30 3 * * *"\ndrill_cron = "@weekly"\ntimezone = "Europe/Oslo"\n'
    found = fleet_of(with_fleet(FLEET + text)).backups
    assert (found.cron, found.drill_cron, found.timezone) == ("30 3 * * *", "@weekly", "Europe/Oslo")
    assert (found.interval, found.drill_interval, found.retain) == ("24h", "7d", 7)
    mixed = fleet_of(with_fleet(FLEET + '[backups]\ncron = "@daily"\ndrill_interval = "30d"\n')).backups
    assert (mixed.cron, mixed.drill_interval) == ("@daily", "30d")


@pytest.mark.parametrize(
    ("text", "key", "message", "remedy"),
    [
        ('interval = "24h"\ncron = "@daily"', "cron", "interval and cron are both written", "remove interval or cron"),
        (
            'drill_interval = "7d"\ndrill_cron = "@weekly"',
            "drill_cron",
            "drill_interval and drill_cron are both written",
            "remove drill_interval or drill_cron",
        ),
        ('cron = "61 3 * * *"', "cron", "is not a cron expression: bad minute", "five fields"),
        ('drill_cron = "@reboot"', "drill_cron", "no such alias", "@weekly"),
        ('cron = "24h"', "cron", "five fields", ""),
        ('cron = "@daily"\ntimezone = "Europe/Olso"', "timezone", "there is no time zone", "Europe/Oslo"),
        ('timezone = "Europe/Oslo"', "timezone", "neither is written", "remove it, or write cron"),
    ],
)
def test_a_mistake_is_told_at_its_key(text: str, key: str, message: str, remedy: str) -> None:
    _, line, where, what, told = only_problem(with_fleet(FLEET + "[backups]\n" + text + "\n"))
    assert where == f"backups.{key}" and message in what and remedy in told, (where, what, told)
    assert line > len(FLEET.splitlines())
