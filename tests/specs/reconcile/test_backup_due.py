"""When a service is backed up (M-96, C-18, M-76): its times, pauses after failures, requests, stale ones."""

from msgspec.structs import replace

from holdfast.model.backup_report import BackupMade
from holdfast.reconcile.backup_due import (
    AHEAD_S,
    ORDERS_KEPT,
    PAUSE_S,
    PAUSE_S_MAX,
    Book,
    asked,
    done,
    failed,
    is_stale,
    next_s,
)
from holdfast.reconcile.backup_times import Every

DAY_S, NOW_S, PHASE = 86_400.0, 1_700_000_000.0, 600.0
DAY = Every(DAY_S)
NEW = Book(known_s=NOW_S)


def backup(at_s: float, sequence: int = 1) -> BackupMade:
    return BackupMade("a" * 16, "a" * 64, sequence, at_s, 1.0, "schedule", 3, 300, 100, 100, "hub")


def made(at_s: float, **changed: object) -> Book:
    return replace(NEW, last=backup(at_s), **changed)


def test_a_new_service_is_due_at_once() -> None:
    assert next_s(NEW, NOW_S, DAY, PHASE) == NOW_S


def test_a_failure_is_tried_again_after_growing_pauses() -> None:
    book, waits = NEW, []
    for _ in range(6):
        book = failed(book, NOW_S, "no space")
        waits.append(next_s(book, NOW_S, DAY, PHASE) - NOW_S)
    assert waits == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S, 8 * PAUSE_S, PAUSE_S_MAX, PAUSE_S_MAX]
    assert book.trouble == "no space" and book.failures == 6
    assert next_s(failed(made(NOW_S), NOW_S, "x"), NOW_S, DAY, PHASE) > NOW_S + PAUSE_S, "the slot is not over"


def test_a_request_is_due_at_once_and_over_with_the_backup_that_began_after_it() -> None:
    request = asked(made(NOW_S - 60), NOW_S, "order")
    assert next_s(request, NOW_S, DAY, PHASE) == NOW_S
    after = done(request, backup(NOW_S + 1, 2))
    assert (after.asked_s, after.asked_by, after.sequence, after.last_s) == (0.0, "", 2, NOW_S + 1)
    earlier = done(request, backup(NOW_S - 1, 2))
    assert (earlier.asked_s, earlier.asked_by) == (NOW_S, "order"), "it began before the request"


def test_a_backup_ends_the_failures_before_it() -> None:
    after = done(failed(NEW, NOW_S, "x"), backup(NOW_S))
    assert (after.failures, after.trouble, after.tried_s) == (0, "", 0.0)


def test_a_wrong_clock_delays_no_backup_for_long() -> None:
    assert next_s(made(NOW_S + AHEAD_S + 1), NOW_S, DAY, PHASE) == NOW_S
    assert next_s(made(NOW_S + AHEAD_S - 1), NOW_S, DAY, PHASE) > NOW_S


def test_a_backup_older_than_two_intervals_is_stale_m76() -> None:
    assert not is_stale(made(NOW_S - 2 * DAY_S), NOW_S, DAY) and is_stale(made(NOW_S - 2 * DAY_S - 1), NOW_S, DAY)
    assert not is_stale(NEW, NOW_S + 2 * DAY_S, DAY) and is_stale(NEW, NOW_S + 2 * DAY_S + 1, DAY)
    old = replace(made(NOW_S + 400 * DAY_S), known_s=NOW_S - 3 * DAY_S)
    assert is_stale(old, NOW_S, DAY), "its date is of a wrong clock"


def test_a_request_ends_the_pause_and_its_order_is_answered_by_a_failure() -> None:
    book = asked(failed(failed(NEW, NOW_S, "x"), NOW_S, "x"), NOW_S + 1, "one")
    assert next_s(book, NOW_S, DAY, PHASE) == NOW_S + 1
    after = failed(book, NOW_S + 2, "no space")
    assert (after.failed_by, after.asked_s, after.asked_by) == (("one",), 0.0, "")
    assert asked(book, NOW_S).asked_by == "one", "a hub takes no order away"
    for number in range(9):
        after = failed(asked(after, NOW_S, f"o{number}"), NOW_S, "x")
    assert after.failed_by == tuple(f"o{number}" for number in range(9 - ORDERS_KEPT, 9))
