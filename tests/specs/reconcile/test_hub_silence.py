"""When a node tells people that it does not hear its hub (X17): once for each silence, over restarts and jumps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.cadence import FAST, NORMAL, Cadence, bounded
from holdfast.reconcile.hub_silence import START_S, Episode, begun, due, heard, limit_s, sent

LIMIT = 900.0
DAY = 86_400.0
WALL = 1_700_000_000.0


def test_an_alarm_is_due_when_the_hub_was_not_heard_for_the_limit() -> None:
    quiet = Episode(heard_s=100.0)
    assert due(quiet, 100.0, LIMIT) == (None, 1000.0) and due(quiet, 999.9, LIMIT) == (None, 1000.0)
    assert due(quiet, 1000.0, LIMIT) == ("alarm", None) == due(quiet, 5000.0, LIMIT)
    assert due(heard(quiet, 999.0, LIMIT), 1000.0, LIMIT) == (None, 1899.0)


def test_it_is_sent_once_however_long_the_silence_is() -> None:
    told = sent(Episode(0.0), "alarm")
    assert [due(told, at_s, LIMIT) for at_s in (901.0, DAY, 30 * DAY)] == [(None, None)] * 3


def test_the_hub_is_back_after_a_third_of_the_limit_without_a_gap() -> None:
    episode = sent(Episode(0.0), "alarm")
    for at_s in range(2000, 2300, 10):
        episode = heard(episode, float(at_s), LIMIT)
        assert due(episode, float(at_s), LIMIT) == (None, None)
    episode = heard(episode, 2300.0, LIMIT)
    assert due(episode, 2300.0, LIMIT) == ("recovery", None)
    assert sent(episode, "recovery") == Episode(2300.0)
    assert due(sent(episode, "recovery"), 3200.0, LIMIT) == ("alarm", None), "the next episode"


def test_a_hub_that_answers_now_and_then_is_one_trouble() -> None:
    """A third of the limit without an answer begins the count anew, and is no second alarm."""
    episode = sent(Episode(0.0), "alarm")
    for at_s in range(2000, 20_000, 300):
        episode = heard(episode, float(at_s), LIMIT)
        assert due(episode, float(at_s), LIMIT)[0] is None and due(episode, at_s + 299.0, LIMIT)[0] is None
        assert due(episode, at_s + 300.0, LIMIT) == (None, None)


def test_a_hub_that_stays_for_less_than_a_third_of_the_limit_is_not_back() -> None:
    episode = sent(Episode(0.0), "alarm")
    for at_s in range(2000, 2290, 10):
        episode = heard(episode, float(at_s), LIMIT)
    assert [due(episode, at_s, LIMIT)[0] for at_s in (2290.0, 2300.0, 2500.0, 9000.0)] == [None] * 4


def test_a_recovery_that_could_not_be_sent_is_not_due_once_the_hub_is_silent_again() -> None:
    episode = sent(Episode(0.0), "alarm")
    for at_s in range(2000, 2400, 10):
        episode = heard(episode, float(at_s), LIMIT)
    assert due(episode, 2400.0, LIMIT)[0] == "recovery" and due(episode, 2700.0, LIMIT) == (None, None)


# ---- over a restart


def test_what_became_due_while_no_agent_ran_is_sent_after_a_chance_to_hear_the_hub() -> None:
    episode = begun(5.0, WALL + DAY, WALL, told=False, limit_s=LIMIT)
    assert due(episode, 5.0, LIMIT) == (None, 5.0 + START_S)
    assert due(episode, 5.0 + START_S, LIMIT) == ("alarm", None)
    assert due(heard(episode, 30.0, LIMIT), 5.0 + START_S, LIMIT)[0] is None, "only the agent was down"


def test_a_restart_in_the_silence_goes_on_counting() -> None:
    episode = begun(7.0, WALL + 600.0, WALL, told=False, limit_s=LIMIT)
    assert due(episode, 7.0, LIMIT) == (None, 307.0)


def test_a_restart_in_an_episode_is_no_second_alarm_and_the_recovery_follows() -> None:
    episode = begun(0.0, WALL + DAY, WALL, told=True, limit_s=LIMIT)
    assert due(episode, 10 * DAY, LIMIT) == (None, None)
    back = heard(heard(heard(episode, 10.0, LIMIT), 200.0, LIMIT), 310.0, LIMIT)
    assert due(back, 310.0, LIMIT) == ("recovery", None)


@pytest.mark.parametrize("back_s", [1.0, 3600.0, 10_000 * DAY])
def test_a_clock_that_was_set_back_makes_the_silence_begin_at_the_start(back_s: float) -> None:
    assert begun(5.0, WALL - back_s, WALL, told=False, limit_s=LIMIT) == Episode(5.0)


def test_a_clock_that_was_set_forward_alarms_no_node_that_hears_its_hub() -> None:
    episode = begun(5.0, WALL + 10_000 * DAY, WALL, told=False, limit_s=LIMIT)
    assert due(episode, 5.0 + START_S - 0.1, LIMIT)[0] is None
    assert due(heard(episode, 15.0, LIMIT), 14.9 + LIMIT, LIMIT)[0] is None


def test_a_node_that_never_heard_its_hub_counts_from_its_start() -> None:
    assert begun(5.0, WALL, None, told=False, limit_s=LIMIT) == Episode(5.0)


def test_a_limit_below_the_chance_of_a_start_begins_at_the_start() -> None:
    assert begun(5.0, WALL + DAY, WALL, told=False, limit_s=10.0) == Episode(5.0)


# ---- the limit


@pytest.mark.parametrize(
    ("after_s", "cadence", "expected_s"),
    [(900.0, NORMAL, 900.0), (1.0, NORMAL, 120.0), (1.0, FAST, 4.0), (10.0, FAST, 10.0)],
)
def test_an_ordinary_pause_is_no_silence(after_s: float, cadence: Cadence, expected_s: float) -> None:
    assert limit_s(after_s, cadence) == expected_s


def test_a_hub_that_asks_for_a_slow_pace_delays_no_alarm_for_long() -> None:
    """It is not signed: W3, X16."""
    assert limit_s(1.0, bounded(Cadence(1e9, 1e9, 1e9, 1e9))) == 240.0


# ---- any story


@given(
    st.lists(st.tuples(st.floats(0.1, 2000.0), st.sampled_from(["silent", "heard", "restart"])), max_size=60),
)
def test_alarms_and_recoveries_alternate_and_each_alarm_has_a_silence(steps: list[tuple[float, str]]) -> None:
    """Whatever a hub does: no two alarms without a recovery between, and none less than a limit after an answer."""
    now_s, last_good_s, told, episode = 0.0, 0.0, False, Episode(0.0)
    for passed_s, what in steps:
        now_s += passed_s
        if what == "heard":
            episode, last_good_s = heard(episode, now_s, LIMIT), now_s
        elif what == "restart":
            episode = begun(now_s, WALL + now_s, WALL + last_good_s, told, LIMIT)
        message, _ = due(episode, now_s, LIMIT)
        if message is not None:
            assert told == (message == "recovery")
            silent_s = now_s - last_good_s
            assert silent_s >= LIMIT if message == "alarm" else silent_s < LIMIT / 3
            told, episode = message == "alarm", sent(episode, message)
