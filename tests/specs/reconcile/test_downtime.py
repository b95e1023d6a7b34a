"""The plan says beforehand how long a service is down."""

from holdfast.model.deployment import StepResult
from holdfast.reconcile import downtime
from holdfast.reconcile.downtime import SLOWER_MAX, STOP_S, Learned


def step(name: str, at_s: float, took_s: float, outcome: str = "done") -> StepResult:
    return StepResult(name, outcome, at_s, took_s)  # type: ignore[arg-type]


UPDATE = (
    step("copy db", 0.0, 90.0),
    step("stop old db 0", 90.0, 0.4),
    step("checkpoint db", 90.4, 0.7),
    step("start db 0", 91.1, 0.3),
    step("healthy db 0", 91.4, 1.0),
    step("switch", 92.4, 0.1),
    step("remove old db 0", 92.5, 0.1),
)


def test_the_last_update_says_how_long_its_stop_was_without_the_checkpoint() -> None:
    assert downtime.learned(UPDATE, Learned()).down_s == 1.8


def test_the_first_deploy_says_how_long_it_takes_to_start() -> None:
    first = (step("start db 0", 5.0, 0.3), step("healthy db 0", 5.3, 1.0), step("switch", 6.3, 0.2))
    assert downtime.learned(first, Learned()) == Learned(round(1.5 + STOP_S, 2), 0.0, 6.5)


def test_a_rollout_that_failed_or_changed_nothing_teaches_nothing() -> None:
    failed = (*UPDATE[:4], step("healthy db 0", 91.4, 30.0, "failed"))
    late = (*UPDATE, step("post_deploy db", 92.6, 1.0, "failed"))
    waits = (*UPDATE[:5], step("switch", 92.4, 0.1, "running"))
    for steps in (failed, late, waits, (), (step("switch", 1.0, 0.1),)):
        assert downtime.learned(steps, Learned(7.0)) == Learned(7.0)


def test_a_service_is_down_from_its_first_stop_and_a_stop_after_the_switch_is_none() -> None:
    second = (step("stop old log 0", 90.2, 0.2), *UPDATE[2:])
    assert downtime.learned((*UPDATE[:2], *second), Learned()).down_s == 1.8
    after = (step("start db 0", 5.0, 0.3), step("switch", 6.3, 0.2), step("stop old db 0", 6.5, 9.0))
    assert downtime.learned(after, Learned()).down_s == round(1.5 + STOP_S, 2)


def test_times_of_a_clock_that_was_set_are_never_less_than_nothing() -> None:
    assert downtime.learned((*UPDATE[:2], step("checkpoint db", 90.4, 70.0), *UPDATE[3:]), Learned()).down_s == 0.0


def test_the_checkpoint_is_estimated_from_files_and_bytes() -> None:
    known = Learned(1.0)
    assert downtime.estimated_s(known, 0, 0) == 1.2
    assert 0.2 < downtime.estimated_s(known, 0, 20_000) - downtime.estimated_s(known, 0, 0) < 0.6
    assert 0.3 < downtime.estimated_s(known, 4 << 30, 1) - downtime.estimated_s(known, 0, 1) < 1.0


def test_a_checkpoint_that_was_slow_on_this_node_makes_the_next_forecast_longer() -> None:
    """20,000 files are 0.5 s by the constants; here they took 1.5 s."""
    steps = tuple(step(one.name, one.at_s, 1.5) if one.name == "checkpoint db" else one for one in UPDATE)
    known = downtime.learned(steps, Learned(), 0, 20_000)
    assert known.slower == 3.0
    assert downtime.estimated_s(known, 0, 20_000) == known.down_s + 1.5
    assert downtime.estimated_s(known, 0, 0) == known.down_s + 0.6


def test_one_very_slow_checkpoint_makes_no_absurd_forecast() -> None:
    steps = tuple(step(one.name, one.at_s, 600.0) if one.name == "checkpoint db" else one for one in UPDATE)
    assert downtime.learned(steps, Learned(), 0, 20_000).slower == SLOWER_MAX


def test_of_several_checkpoints_each_counts_and_without_one_the_last_rollout_with_one_does() -> None:
    second = (*UPDATE[:3], step("checkpoint log", 91.1, 0.3), *UPDATE[3:])
    assert downtime.learned(second, Learned(), 0, 20_000).slower == 1.0, "0.7 and 0.3 s, where 0.5 s are expected"
    without = (*UPDATE[:2], *UPDATE[3:])
    assert downtime.learned(without, Learned(slower=3.0), 0, 20_000).slower == 3.0


def test_a_checkpoint_that_found_nothing_changed_makes_no_forecast_shorter() -> None:
    steps = tuple(step(one.name, one.at_s, 0.01) if one.name == "checkpoint db" else one for one in UPDATE)
    known = downtime.learned(steps, Learned(), 4 << 30, 1)
    assert downtime.estimated_s(known, 4 << 30, 1) > known.down_s + 0.5


def test_a_rollout_is_learned_from_once_whatever_its_data_became() -> None:
    known = downtime.learned(UPDATE, Learned(), 0, 10)
    assert known.at_s == 92.5 and downtime.learned(UPDATE, known, 0, 1_000_000) == known
    twice = (*UPDATE, step("switch", 95.0, 0.1))
    assert downtime.learned(twice, known).at_s == 95.1, "of the last switch"
    ahead = Learned(9.0, at_s=1000.0)
    assert downtime.learned(UPDATE, ahead) == Learned(1.8, 3.5, 92.5), "also by a clock that was set back since"


def test_a_copy_without_its_checkpoint_is_abandoned() -> None:
    assert not downtime.is_abandoned(UPDATE)
    assert downtime.is_abandoned(UPDATE[:2])
    assert downtime.is_abandoned((step("copy db", 0.0, 1.0, "failed"),))
    assert downtime.is_abandoned((*UPDATE, step("copy log", 95.0, 1.0)))
    assert downtime.is_abandoned((*UPDATE, step("copy db", 95.0, 1.0))), "the next attempt copied again"
    assert downtime.is_abandoned((*UPDATE[:2], step("checkpoint db", 90.4, 0.7, "failed")))


def test_figures_have_two_digits() -> None:
    assert [downtime.two_digits(value) for value in (123_456, 0.123, 0)] == [120_000, 0.12, 0]
