"""W16, D31, S08 (clock rows): time never goes back, and no clock alone can push it forward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Corrupt
from holdfast.trust.time_floor import TimeFloor, advance, now_s, restored, stored

T_S, DAY_S, YEARS_S = 1_700_000_000.0, 86_400.0, 10 * 365 * 86_400.0


def settled() -> TimeFloor:
    """A node that has heard from its hub, at T_S."""
    state, alarm = advance(TimeFloor(), T_S, 100.0, T_S)
    assert alarm is None
    return state


def test_a_clock_set_back_a_day_revives_nothing_and_is_told() -> None:
    state, alarm = advance(settled(), T_S + 10 - DAY_S, 110.0)
    assert now_s(state, T_S + 10 - DAY_S) == T_S + 10
    assert alarm is not None and "behind" in alarm


def test_time_goes_on_while_the_clock_is_set_back() -> None:
    state = settled()
    for passed in range(1, 101):
        state, _ = advance(state, T_S - DAY_S + passed * 30, 100.0 + passed * 30)
    assert now_s(state, T_S - DAY_S) == T_S + 3000


def test_a_leap_of_ten_years_and_back_poisons_nothing() -> None:
    state, alarm = advance(settled(), T_S + YEARS_S, 101.0, T_S + 1)
    assert alarm is not None and "ahead of the hub" in alarm
    assert now_s(state, T_S + YEARS_S) == T_S + YEARS_S  # while it lasts, everything has expired: the safe side
    state, alarm = advance(state, T_S + 2, 102.0, T_S + 2)
    assert alarm is None and now_s(state, T_S + 2) == T_S + 2


@pytest.mark.parametrize("monotonic_s", [100.0 + YEARS_S, 0.0, 100.0 + 601])
def test_a_monotonic_clock_that_leaps_counts_as_no_time(monotonic_s: float) -> None:
    """libfaketime moves it as well; a reboot starts it anew."""
    state, _ = advance(settled(), T_S + YEARS_S, monotonic_s)
    assert now_s(state, T_S) == T_S


def test_the_longest_step_that_counts_counts_whole() -> None:
    assert now_s(advance(settled(), T_S - 1, 700.0)[0], 0) == T_S + 600


def test_neither_hub_nor_wall_clock_moves_it_alone() -> None:
    assert advance(settled(), T_S, 100.0, T_S + YEARS_S)[0].floor_s == T_S
    assert advance(settled(), T_S + YEARS_S, 100.0, T_S)[0].floor_s == T_S
    assert advance(settled(), T_S + YEARS_S, 100.0)[0].floor_s == T_S
    assert advance(settled(), T_S + YEARS_S, 100.0, T_S + YEARS_S + 60)[0].floor_s == T_S + YEARS_S
    assert advance(settled(), T_S + YEARS_S, 100.0, T_S + YEARS_S + 60.5)[0].floor_s == T_S


def test_uptime_alone_is_not_a_date() -> None:
    state, _ = advance(TimeFloor(), 50.0, 100.0)
    state, _ = advance(state, 60.0, 110.0)
    assert state.floor_s == 0.0 and now_s(state, 60.0) == 60.0


@pytest.mark.parametrize(
    ("off_s", "told"), [(0, False), (30, False), (-30, False), (31, True), (-31, True), (-600, True)]
)
def test_a_clock_more_than_thirty_seconds_off_is_told(off_s: float, told: bool) -> None:
    _, alarm = advance(TimeFloor(), T_S + off_s, 100.0, T_S)
    assert (alarm is not None) is told


@pytest.mark.parametrize(("behind_s", "told"), [(30, False), (30.5, True)])
def test_a_clock_behind_what_was_seen_is_told_without_any_hub(behind_s: float, told: bool) -> None:
    assert (advance(settled(), T_S - behind_s, 100.0)[1] is not None) is told


def test_it_survives_a_restart() -> None:
    state = restored(stored(settled()))
    assert state == TimeFloor(T_S, None) and restored(None) == TimeFloor()
    assert now_s(advance(state, T_S - DAY_S, 5.0)[0], T_S - DAY_S) == T_S


@pytest.mark.parametrize("content", [b"", b"x", b"-1", b"1e9", b"9" * 13])
def test_a_damaged_memory_of_time_is_said_so(content: bytes) -> None:
    with pytest.raises(Corrupt):
        restored(content)


@given(
    st.lists(
        st.tuples(st.floats(0, 4e9), st.floats(0, 4e9), st.one_of(st.none(), st.floats(0, 4e9)), st.floats(0, 4e9)),
        max_size=20,
    )
)
def test_whatever_clocks_and_hubs_do_it_never_goes_back(steps: list[tuple[float, float, float | None, float]]) -> None:
    state, before_s = settled(), 0.0
    for wall_s, monotonic_s, hub_s, later_wall_s in steps:
        state, _ = advance(state, wall_s, monotonic_s, hub_s)
        assert state.floor_s >= max(before_s, T_S) and now_s(state, later_wall_s) >= state.floor_s
        before_s = state.floor_s
