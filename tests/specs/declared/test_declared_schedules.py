"""Schedules in a service file: read, and every mistake told with its place and a remedy."""

import pytest

from holdfast.model.schedule import Schedule
from tests.specs.declared.declared_fleets import WEB, fleet_of, only_problem, problems_of, with_service

JOB = '[[schedule]]\nname = "nightly"\ncomponent = "web"\ncron = "30 3 * * *"\ncmd = ["backup"]\n'


def test_a_schedule_is_read_key_by_key() -> None:
    text = JOB + 'timezone = "Europe/Oslo"\ntimeout = "5m"\noverlap = "queue"\nretries = 2\n'
    (found,) = fleet_of(with_service(WEB + text)).services["web"].schedule
    assert found == Schedule("nightly", "web", "30 3 * * *", ("backup",), "Europe/Oslo", "5m", "queue", 2)
    (plain,) = fleet_of(with_service(WEB + JOB.replace("30 3 * * *", "@daily"))).services["web"].schedule
    assert (plain.fields, plain.timezone, plain.timeout, plain.overlap, plain.retries) == (
        "0 0 * * *",
        "UTC",
        "1h",
        "skip",
        0,
    )


@pytest.mark.parametrize(
    ("old", "new", "message", "remedy"),
    [
        ("30 3 * * *", "61 3 * * *", "is not a cron expression: bad minute", "five fields"),
        ("30 3 * * *", "0 0 31 2 *", "is not a cron expression: bad day-of-month", "five fields"),
        ("30 3 * * *", "0 0 */31 2 mon#5", "is not a cron expression: no minute matches it", "@daily"),
        ("30 3 * * *", "@reboot", "no such alias", "@daily"),
        ("30 3 * * *", "30 3 * *", "five fields", ""),
        ("30 3 * * *", "0 30 3 * * *", "five fields", ""),
        ('component = "web"', 'component = "wep"', 'there is no component "wep"', 'did you mean "web"?'),
        ('cmd = ["backup"]', "cmd = []", "cmd", ""),
        ('cmd = ["backup"]', 'cmd = ["backup"]\ntimezone = "Europe/Olso"', "there is no time zone", "Europe/Oslo"),
        ('cmd = ["backup"]', 'cmd = ["backup"]\ntimezone = "Europe//Oslo"', "there is no time zone", "Europe/Oslo"),
        ('cmd = ["backup"]', 'cmd = ["backup"]\ntimezone = "Europe"', "there is no time zone", "Europe/Oslo"),
        ('cmd = ["backup"]', 'cmd = ["backup"]\ntimezone = "../../etc/passwd"', "timezone", ""),
        ('cmd = ["backup"]', 'cmd = ["backup"]\nretries = 11', "retries", ""),
        ('cmd = ["backup"]', 'cmd = ["backup"]\noverlap = "kill"', "overlap", ""),
    ],
)
def test_a_mistake_is_told_with_a_remedy(old: str, new: str, message: str, remedy: str) -> None:
    problem = only_problem(with_service(WEB + JOB.replace(old, new)))
    assert message in str(problem) and remedy in str(problem), str(problem)


def test_two_schedules_of_one_name_are_a_mistake() -> None:
    (problem,) = problems_of(with_service(WEB + JOB + JOB))
    assert "nightly" in str(problem)


@pytest.mark.parametrize(
    ("key", "old", "new", "said"),
    [
        ("component", 'component = "web"', 'component = "database"', "one of: web"),
        ("cron", "30 3 * * *", "61 3 * * *", "one of: @hourly"),
        ("timezone", 'cmd = ["backup"]', 'cmd = ["backup"]\ntimezone = "Europe/Olso"', "without the key it is UTC"),
    ],
)
def test_a_mistake_is_told_with_the_key_of_its_own_schedule(key: str, old: str, new: str, said: str) -> None:
    text = WEB + JOB.replace("nightly", "first") + JOB.replace(old, new)
    _, line, where, _, remedy = only_problem(with_service(text))
    assert (where, said in remedy) == (f"schedule[1].{key}", True), (where, remedy)
    assert text.splitlines()[line - 1].startswith(key)
