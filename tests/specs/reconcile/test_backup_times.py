"""The times of backups and drills (M-96): slots of an interval, and minutes of a cron expression with the rules of
schedules where clocks change."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count

import pytest

from holdfast.adapters.calendar.cronsim import CronCalendar
from holdfast.reconcile.backup_times import CRON_PHASE_S_MAX, PHASE_S_MAX, At, Every, longest_pause_s

HOUR_S, DAY_S, NOW_S, PHASE = 3_600.0, 86_400.0, 1_700_000_000.0, 600.0
OSLO = "Europe/Oslo"  # clocks go forward on 2026-03-29 and back on 2026-10-25


def at_s(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def minutes(cron: str, zone: str = "UTC") -> Callable[[float], Iterator[float]]:
    return lambda after_s: CronCalendar().minutes(cron, zone, after_s)


def pause_s(cron: str, zone: str = "UTC", after: str = "2026-01-05") -> float:
    return longest_pause_s(minutes(cron, zone)(at_s(after)))


def test_an_interval_is_due_once_in_each_slot_however_late_the_last_one_was() -> None:
    begin_s = Every(DAY_S).due_s(NOW_S, PHASE) - DAY_S
    assert begin_s <= NOW_S < begin_s + DAY_S
    for late_s in (0.0, HOUR_S, DAY_S - 1):
        assert Every(DAY_S).due_s(begin_s + late_s, PHASE) == begin_s + DAY_S


@pytest.mark.parametrize(
    ("times", "most_s"), [(Every(DAY_S), PHASE_S_MAX), (At(minutes("30 3 * * *"), DAY_S), CRON_PHASE_S_MAX)]
)
def test_phases_differ_and_stay_the_same(times: Every | At, most_s: float) -> None:
    found = {times.phase_s(f"s{n}", "w1") for n in range(50)}
    assert len(found) == 50 and all(0 <= one <= most_s for one in found) and max(found) > most_s / 2
    assert times.phase_s("web", "w1") == times.phase_s("web", "w1") != times.phase_s("web", "w2")
    assert max(Every(100.0).phase_s(f"s{n}", "w1") for n in range(50)) <= 10.0


def test_a_minute_of_cron_is_due_once_after_its_phase() -> None:
    nightly = At(minutes("30 3 * * *"), DAY_S)
    due_s = at_s("2026-01-05T03:30") + 60
    assert nightly.due_s(at_s("2026-01-04T12:00"), 60) == due_s
    assert nightly.due_s(at_s("2026-01-05T03:29"), 60) == due_s, "a backup by order is not the one of that night"
    assert nightly.due_s(at_s("2026-01-05T03:30:30"), 60) == due_s, "nor is one between the minute and its phase"
    assert nightly.due_s(due_s, 60) == nightly.due_s(due_s + HOUR_S, 60) == due_s + DAY_S
    assert nightly.due_s(at_s("2025-12-01"), 60) < due_s - 30 * DAY_S, "one that was missed is due since then"


def test_where_clocks_change_a_night_has_one_backup() -> None:
    nightly = At(minutes("30 2 * * *", OSLO), DAY_S)
    assert nightly.due_s(at_s("2026-03-28T12:00"), 0) == at_s("2026-03-29T01:00"), "the first minute after the gap"
    assert nightly.due_s(at_s("2026-03-29T01:00"), 0) == at_s("2026-03-30T00:30")
    assert nightly.due_s(at_s("2026-10-24T12:00"), 0) == at_s("2026-10-25T00:30")
    assert nightly.due_s(at_s("2026-10-25T00:30"), 0) == at_s("2026-10-26T01:30"), "the hour that comes twice"


def test_the_longest_pause_is_that_between_the_next_runs() -> None:
    assert pause_s("30 3 * * *") == DAY_S and pause_s("*/5 * * * *") == 300
    assert pause_s("0 3 * * 1-5") == 3 * DAY_S, "from Friday to Monday"
    assert pause_s("* 8-17 * * 1-5") == 2 * DAY_S + 14 * HOUR_S + 60, "from Friday 17:59 to Monday 8:00"
    assert pause_s("0 0 1 * *") == 31 * DAY_S
    assert pause_s("0 0 1 1 *") == 366 * DAY_S and pause_s("0 0 29 2 *") == 1461 * DAY_S
    assert pause_s("30 2 * * *", OSLO) == DAY_S + HOUR_S, "the night in October"
    assert longest_pause_s(iter(())) == longest_pause_s(iter((NOW_S,))) == 0.0


def test_it_is_looked_for_in_a_bounded_number_of_runs() -> None:
    taken = []
    longest_pause_s(taken.append(n) or 60.0 * n for n in count())  # type: ignore[func-returns-value]
    assert len(taken) < 10_010
