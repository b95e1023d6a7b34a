"""When backups are proven and what a drill has shown (H-60): slots, pauses, requests, proofs, verdicts."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import Corrupt, Failed, HoldfastError, TryLater
from holdfast.model.drill import DrillResult, Verdict
from holdfast.reconcile.backup_due import AHEAD_S
from holdfast.reconcile.backup_times import Every
from holdfast.reconcile.drill import (
    CUT_MAX,
    FIRST_S,
    NEWER_S,
    PAUSE_S,
    PAUSE_S_MAX,
    PROVEN_KEPT,
    RED,
    TRIED,
    Book,
    asked,
    begun,
    ended,
    gave_way,
    is_overdue,
    next_s,
    verdict_of,
)

WEEK_S, NOW_S = 7 * 86_400.0, 1_700_000_000.0
WEEKLY = Every(WEEK_S)
PHASE = WEEKLY.phase_s("web", "w1")
NEW = Book(known_s=NOW_S)


def result(verdict: Verdict, at_s: float = NOW_S, backup: str = "a", **more: Any) -> DrillResult:
    return DrillResult(verdict, at_s, 1.0, "schedule", backup, made_s=at_s - 60, **more)


def due_s(book: Book, now_s: float = NOW_S, newest: str = "a") -> float:
    return next_s(book, PHASE, now_s, WEEKLY, newest)


# ---- when


def test_the_first_drill_is_an_hour_after_the_first_backup_at_the_services_own_minute() -> None:
    assert due_s(NEW) == NOW_S + FIRST_S + PHASE
    ahead = ended(NEW, result("verified", NOW_S + AHEAD_S + 1))
    assert due_s(ahead) == due_s(NEW), "a drill in the far future was dated by a wrong clock"


@pytest.mark.parametrize("verdict", ["verified", "failed"])
def test_after_a_verdict_the_next_one_is_due_in_the_next_slot(verdict: Verdict) -> None:
    begin_s = (NOW_S - PHASE) // WEEK_S * WEEK_S + PHASE
    for late_s in (0.0, 3_600.0, WEEK_S - 1):
        at_s = begin_s + late_s
        assert due_s(ended(NEW, result(verdict, at_s)), at_s) == begin_s + WEEK_S


def test_after_a_failed_one_a_newer_backup_is_proven_within_the_hour() -> None:
    red = ended(NEW, result("failed"))
    assert due_s(red, newest="b") == NOW_S + NEWER_S
    assert due_s(red, newest="a") > NOW_S + NEWER_S and due_s(red, newest="") == due_s(red, newest="a")
    green = ended(NEW, result("verified"))
    assert due_s(green, newest="b") == due_s(green, newest="a"), "a proof is good until the next slot"
    late_s = (NOW_S - PHASE) // WEEK_S * WEEK_S + PHASE + WEEK_S - 60
    assert due_s(ended(NEW, result("failed", late_s)), late_s, "b") == late_s + 60, "the slot comes first"


def test_one_without_a_result_is_repeated_after_growing_pauses() -> None:
    book, waits = NEW, []
    for _ in range(6):
        book = ended(book, result("inconclusive"))
        waits.append(due_s(book) - NOW_S)
    assert waits == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S, 8 * PAUSE_S, PAUSE_S_MAX, PAUSE_S_MAX]
    assert ended(book, result("failed")).unclear == 0


def test_drills_that_end_the_agent_each_time_are_repeated_after_pauses() -> None:
    book, waits = ended(NEW, result("verified", NOW_S - 2 * WEEK_S)), []
    for _ in range(CUT_MAX + 3):
        book = begun(book, NOW_S)
        waits.append(max(due_s(book) - NOW_S, 0.0))
    assert waits == [*[0.0] * CUT_MAX, PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S]
    assert due_s(book, NOW_S - AHEAD_S - 1) < NOW_S, "it was dated by a wrong clock"
    assert due_s(gave_way(book)) < NOW_S and gave_way(book).begun_s == 0.0
    assert due_s(asked(book, NOW_S, "o1")) == NOW_S, "an operator who asks does not wait for the pause"
    assert due_s(asked(book, NOW_S)) > NOW_S, "a hub does"
    over = ended(book, result("inconclusive"))
    assert (over.cut, over.begun_s) == (0, 0.0)


# ---- by request


def test_a_request_is_due_at_once_and_an_order_comes_before_a_hub() -> None:
    by_hub = asked(NEW, NOW_S)
    assert (due_s(by_hub), by_hub.cause) == (NOW_S, "hub") and NEW.cause == "schedule"
    by_order = asked(by_hub, NOW_S + 1, "o1", "b")
    assert (by_order.asked_by, by_order.asked_for, by_order.cause) == ("o1", "b", "order")
    assert asked(by_order, NOW_S + 2) == by_order, "a hub displaces no order"


def test_a_request_that_came_while_one_ran_is_for_another_one() -> None:
    book = asked(NEW, NOW_S, "o1", "b")
    over = ended(book, result("verified", NOW_S + 1))
    assert (over.asked_s, over.asked_by, over.asked_for) == (0.0, "", "")
    still = ended(asked(book, NOW_S + 2, "o2", "c"), result("verified", NOW_S + 1))
    assert (still.asked_s, still.asked_by, still.asked_for) == (NOW_S + 2, "o2", "c")


# ---- what is proven


def test_what_was_verified_is_proven_until_it_fails() -> None:
    book = ended(ended(NEW, result("verified", NOW_S)), result("verified", NOW_S + 10, "b"))
    assert book.newest_proven == "b" and dict(book.proven_made) == {"a": NOW_S - 60, "b": NOW_S - 50}
    assert ended(book, result("inconclusive", NOW_S + 20, "b")).proven == book.proven
    red = ended(book, result("failed", NOW_S + 20, "b"))
    assert dict(red.proven) == {"a": NOW_S} and dict(red.proven_made) == {"a": NOW_S - 60} and red.newest_proven == "a"
    assert ended(red, result("failed", NOW_S + 30, "")).proven == red.proven, "no backup was chosen"
    assert NEW.newest_proven == ""


def test_a_book_holds_the_newest_proofs() -> None:
    book = NEW
    for number in range(PROVEN_KEPT + 3):
        book = ended(book, result("verified", NOW_S + number, f"b{number}"))
    assert len(book.proven) == len(book.proven_made) == PROVEN_KEPT and "b2" not in book.proven and "b3" in book.proven


def test_no_proof_for_two_intervals_is_overdue() -> None:
    assert not is_overdue(NEW, NOW_S + 2 * WEEK_S, WEEKLY) and is_overdue(NEW, NOW_S + 2 * WEEK_S + 1, WEEKLY)
    proven = ended(NEW, result("verified", NOW_S + WEEK_S))
    assert not is_overdue(proven, NOW_S + 3 * WEEK_S, WEEKLY) and is_overdue(proven, NOW_S + 3 * WEEK_S + 1, WEEKLY)
    wrong = replace(NEW, proven={"a": NOW_S + 9 * WEEK_S})
    assert is_overdue(wrong, NOW_S + 3 * WEEK_S, WEEKLY), "a proof of the far future is none"


# ---- verdicts


@pytest.mark.parametrize(
    ("trouble", "verdict"),
    [
        (Corrupt("x", remedy="y", code="archive_damaged"), "failed"),
        *((Failed("x", remedy="y", code=code), "failed") for code in sorted(RED)),
        (Failed("x", remedy="y", code="no_space"), "inconclusive"),
        (Failed("x", remedy="y", code="image_unknown"), "inconclusive"),
        (TryLater("x", remedy="y", code="runtime_away"), "inconclusive"),
    ],
)
def test_only_what_says_something_about_the_backup_is_red(trouble: HoldfastError, verdict: str) -> None:
    assert verdict_of(trouble) == verdict and TRIED < RED
