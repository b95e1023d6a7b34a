"""The rules of schedules: each minute is decided once; late, overlapping and idle minutes (issue 12)."""

from holdfast.model.schedule import RunResult, Schedule
from holdfast.reconcile.schedule import (
    AHEAD_S,
    LATE_S,
    PAUSES_S,
    QUEUE_MAX,
    Book,
    Run,
    again,
    begun,
    decide,
    ended,
    from_queue,
    is_late,
    is_too_late,
    not_begun,
    opened,
    too_late,
    unstarted,
)

NOW_S = 1_700_000_100.0
JOB = Schedule("job", "web", "* * * * *", ("do",))


def book(**changed: object) -> Book:
    return Book(**{"decided_s": NOW_S - 60, "cron": "* * * * *", "timezone": "UTC", **changed})  # type: ignore[arg-type]


def run(**changed: object) -> Run:
    return Run(**{"due_s": NOW_S, "begun_s": NOW_S, "container": "c-1", "timeout_s": 60.0, **changed})  # type: ignore[arg-type]


def test_a_new_schedule_begins_now_and_one_at_other_minutes_too() -> None:
    assert opened(None, JOB, NOW_S) == book(decided_s=NOW_S)
    assert opened(book(cron="@daily", missed=2), JOB, NOW_S) == book(decided_s=NOW_S, missed=2)
    assert opened(book(timezone="Europe/Oslo"), JOB, NOW_S) == book(decided_s=NOW_S)
    assert opened(book(), JOB, NOW_S) == book()


def test_a_decision_that_a_wrong_clock_made_is_not_waited_for() -> None:
    assert opened(book(decided_s=NOW_S + AHEAD_S + 1), JOB, NOW_S).decided_s == NOW_S
    assert opened(book(decided_s=NOW_S + AHEAD_S), JOB, NOW_S).decided_s == NOW_S + AHEAD_S


def test_a_minute_in_time_begins_and_is_decided() -> None:
    assert decide(book(), [NOW_S], NOW_S + 1, "skip", idle=False) == (book(decided_s=NOW_S), NOW_S)
    assert decide(book(), [], NOW_S, "skip", idle=False) == (book(), None)


def test_a_late_minute_is_missed_and_of_several_only_the_newest_begins() -> None:
    late = NOW_S - LATE_S - 1
    assert decide(book(), [late], NOW_S, "skip", False) == (book(decided_s=late, missed=1, missed_s=late), None)
    assert decide(book(), [late + 1], NOW_S, "skip", False) == (book(decided_s=late + 1), late + 1), "just in time"
    after, due_s = decide(book(), [late, NOW_S - 60, NOW_S], NOW_S, "skip", False)
    assert (after.missed, after.missed_s, after.decided_s, due_s) == (2, NOW_S - 60, NOW_S, NOW_S)


def test_an_idle_service_misses_nothing_and_forgets_what_waited() -> None:
    idle = decide(book(queue=(NOW_S - 60,)), [NOW_S - 9999, NOW_S], NOW_S, "queue", idle=True)
    assert idle == (book(decided_s=NOW_S), None)


def result(order: str = "", ended_s: float = NOW_S) -> RunResult:
    return RunResult(ended_s - 10, ended_s - 10, 10.0, "done", 0, order=order)


def test_the_newest_results_of_runs_by_order_are_kept_for_the_commands_that_wait_for_them() -> None:
    found = book(run=run())
    for n in range(6):
        found = begun(ended(found, result(f"o-{n}")), run())
    found = ended(found, result())
    assert [one.order for one in found.ordered] == ["o-3", "o-4", "o-5"] and found.last == result()
    later = ended(begun(found, run()), result(ended_s=NOW_S + 3599))
    assert len(later.ordered) == 3, "a run without an order is not kept"
    assert ended(begun(later, run()), result(ended_s=NOW_S + 3600)).ordered == ()


def test_while_a_run_is_under_way_the_next_is_skipped() -> None:
    after, due_s = decide(book(run=run()), [NOW_S - LATE_S - 1, NOW_S], NOW_S, "skip", False)
    assert due_s is None and (after.skipped, after.missed) == (1, 1)
    after, _ = decide(book(run=run()), [NOW_S - 120, NOW_S - 60], NOW_S, "skip", False)
    assert (after.skipped, after.missed) == (2, 0)
    after, _ = decide(book(run=run()), [NOW_S - LATE_S - 1], NOW_S, "skip", False)
    assert (after.skipped, after.missed) == (0, 1)


def test_or_it_waits_in_a_queue_of_limited_length() -> None:
    minutes = [NOW_S + 60 * n for n in range(QUEUE_MAX + 2)]
    after = book(run=run())
    for minute in minutes:
        after, due_s = decide(after, [minute], minute, "queue", False)
        assert due_s is None
    assert after.queue == tuple(minutes[:QUEUE_MAX]) and (after.missed, after.missed_s) == (2, minutes[-1])
    assert from_queue(after) == (after, None), "the run before is under way"
    free = ended(after, None)
    taken, due_s = from_queue(free)
    assert due_s == minutes[0] and taken.queue == tuple(minutes[1:QUEUE_MAX])
    assert from_queue(book()) == (book(), None)


def test_a_run_that_is_done_ends_the_count_of_what_went_wrong() -> None:
    under_way = begun(book(missed=3, missed_s=1.0, skipped=2), run())
    done = RunResult(NOW_S, NOW_S, 1.0, "done", 0)
    assert ended(under_way, done) == book(last=done, left="c-1")
    failed = RunResult(NOW_S, NOW_S, 1.0, "failed", 1)
    assert ended(under_way, failed) == book(last=failed, left="c-1", missed=3, missed_s=1.0, skipped=2)


def test_another_attempt_is_of_the_same_minute_after_a_longer_pause() -> None:
    after = begun(book(), run())
    for attempt, pause_s in ((2, PAUSES_S[0]), (3, PAUSES_S[1]), (4, PAUSES_S[2]), (5, PAUSES_S[2])):
        after = again(after, f"c-{attempt}", NOW_S)
        assert after.run == run(attempt=attempt, container=f"c-{attempt}", begun_s=NOW_S + pause_s)
        assert after.left == f"c-{attempt - 1}"


def test_what_an_agent_finds_too_late_does_not_begin() -> None:
    assert not is_too_late(run(), NOW_S + LATE_S) and is_too_late(run(), NOW_S + LATE_S + 1)
    assert not is_too_late(run(stage="starting"), NOW_S + 99_999), "it may have begun"
    assert too_late(begun(book(), run()), NOW_S) == book(missed=1, missed_s=NOW_S, left="c-1")
    newer = begun(book(missed=1, missed_s=NOW_S + 60), run())
    assert too_late(newer, NOW_S) == book(missed=2, missed_s=NOW_S + 60, left="c-1"), "the newest one that was missed"
    after = too_late(begun(book(), run(attempt=2)), NOW_S)
    assert after.last is not None and (after.last.outcome, after.last.attempts, after.missed) == ("failed", 1, 0)
    by_order = too_late(begun(book(), run(order="o-1")), NOW_S).last
    assert by_order is not None and (by_order.outcome, by_order.attempts, by_order.order) == ("failed", 0, "o-1")


def test_an_attempt_that_does_not_begin_leaves_nothing_behind_unless_one_failed_or_an_order_waits() -> None:
    assert not_begun(begun(book(), run()), "it is stopped", NOW_S) == book(left="c-1")
    after = not_begun(begun(book(), run(attempt=3)), "it is stopped", NOW_S).last
    assert after is not None and (after.outcome, after.attempts) == ("failed", 2)
    assert after.message == "failed, and attempt 3 did not begin: it is stopped"
    by_order = not_begun(begun(book(), run(order="o-1")), "it is stopped", NOW_S).last
    assert by_order is not None and (by_order.message, by_order.order) == ("did not begin: it is stopped", "o-1")


def test_a_container_that_was_not_started_is_made_again_if_it_is_not_too_late() -> None:
    before = begun(book(), run(stage="starting", boot="b"))
    assert unstarted(before) == begun(book(), run())
    assert not is_late(run(), NOW_S + LATE_S) and is_late(run(stage="starting"), NOW_S + LATE_S + 1)
