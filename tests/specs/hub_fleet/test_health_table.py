"""The health table: complete, never silent about a death, never twice about one (M-55, M-57, M-75, I-30)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.hub.nodes import health
from holdfast.hub.nodes.health import HAPPENINGS, STATUSES, TABLE, Condition, HealthRecord


def test_every_state_has_an_answer_to_everything_that_can_happen() -> None:
    assert set(TABLE) == {(status, happening) for status in STATUSES for happening in HAPPENINGS}


def test_any_word_makes_a_node_healthy() -> None:
    """M-57."""
    assert {TABLE[status, "heard"].status for status in STATUSES} == {"healthy"}


def test_only_a_failed_probe_makes_a_node_unhealthy() -> None:
    """M-55: silence alone makes it suspect."""
    for (status, happening), step in TABLE.items():
        if step.status == "unhealthy" and status != "unhealthy":
            assert (status, happening) == ("suspect", "probe_over")


@given(st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.booleans()), max_size=60))
def test_alarms_and_recoveries_alternate_and_none_is_raised_in_the_warm_up(events: list[tuple[str, bool]]) -> None:
    condition = Condition()
    said: list[str] = []
    for at, (happening, warm) in enumerate(events):
        before = condition
        condition, follows = health.after(condition, happening, float(at), warm)  # type: ignore[arg-type]
        if follows in ("alarm", "recover"):
            said.append(follows)
        assert follows != "alarm" or warm
        assert condition.alerted == (said[-1:] == ["alarm"])
        assert condition is before or condition.since_s == at
    assert all(one != two for one, two in pairwise(said))
    assert said[:1] != ["recover"]


@given(st.sampled_from(["healthy", "unhealthy"]), st.booleans())
def test_a_restart_forgets_no_alarm_and_believes_in_nobodys_health(status: str, alerted: bool) -> None:
    record = HealthRecord(status, 5.0, alerted)  # type: ignore[arg-type]
    found = health.remembered(record, 100.0)
    assert found.status == ("unhealthy" if status == "unhealthy" and alerted else "unknown")
    assert found.alerted == (status == "unhealthy" and alerted)
    assert health.remembered(None, 100.0) == Condition("unknown", 100.0, False)


def test_people_read_three_words() -> None:
    """M-47."""
    shown = {health.shown(Condition(status), heard) for status in STATUSES for heard in (True, False)}
    assert shown == {"healthy", "unhealthy", "unknown"}
    assert health.shown(Condition("suspect"), heard=True) == "healthy"
