"""Which minutes match a cron expression, in which time zone, also where clocks change."""

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from holdfast.adapters.calendar.cronsim import CronCalendar
from holdfast.errors import Failed

OSLO = "Europe/Oslo"  # clocks go forward on 2026-03-29 and back on 2026-10-25


def minutes(cron: str, zone: str, after: str, count: int = 3) -> list[str]:
    after_s = datetime.fromisoformat(after).replace(tzinfo=UTC).timestamp()
    found = islice(CronCalendar().minutes(cron, zone, after_s), count)
    return [datetime.fromtimestamp(at_s, UTC).astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z") for at_s in found]


def test_the_minutes_are_those_of_the_time_zone() -> None:
    assert minutes("30 3 * * *", "UTC", "2026-01-05", 2) == ["05 03:30+0000", "06 03:30+0000"]
    assert minutes("30 3 * * *", OSLO, "2026-01-05", 1) == ["05 03:30+0100"]
    assert minutes("0 9 * * mon-fri", OSLO, "2026-01-02T12:00", 2) == ["05 09:00+0100", "06 09:00+0100"]


def test_a_minute_that_is_now_does_not_come_again() -> None:
    assert minutes("* * * * *", "UTC", "2026-01-05T00:00:00", 1) == ["05 00:01+0000"]
    assert minutes("* * * * *", "UTC", "2026-01-05T00:00:59.900", 1) == ["05 00:01+0000"]


def test_where_clocks_go_forward_a_fixed_time_in_the_gap_is_its_end_once() -> None:
    assert minutes("30 2 * * *", OSLO, "2026-03-28T12:00") == ["29 03:00+0200", "30 02:30+0200", "31 02:30+0200"]
    assert minutes("0,30 2 * * *", OSLO, "2026-03-28T12:00", 2) == ["29 03:00+0200", "30 02:00+0200"]
    assert minutes("*/30 * * * *", OSLO, "2026-03-29T00:00", 2) == ["29 01:30+0100", "29 03:00+0200"]


def test_where_clocks_go_back_a_fixed_time_comes_once_and_a_wildcard_follows_real_time() -> None:
    assert minutes("30 2 * * *", OSLO, "2026-10-24T12:00", 2) == ["25 02:30+0200", "26 02:30+0100"]
    assert minutes("30 2 * * *", OSLO, "2026-10-25T01:10", 1) == ["26 02:30+0100"], "in the hour that comes again"
    assert minutes("30 * * * *", OSLO, "2026-10-25T00:00") == ["25 02:30+0200", "25 02:30+0100", "25 03:30+0100"]


@pytest.mark.parametrize(("cron", "zone"), [("61 * * * *", "UTC"), ("* * * *", "UTC"), ("* * * * *", "Mars/Base")])
def test_what_cannot_be_read_is_said(cron: str, zone: str) -> None:
    with pytest.raises(Failed, match="cannot be read on this node"):
        next(CronCalendar().minutes(cron, zone, 0.0))
