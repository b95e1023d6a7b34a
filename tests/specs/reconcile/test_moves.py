"""Moves of data: who may run the service, and when its source stops it (I-20)."""

import pytest
from msgspec import UNSET

from holdfast.model.move import Move
from holdfast.model.revision import Entry
from holdfast.reconcile.moves import (
    BRIEF_S,
    PASSES_MAX,
    SMALL_BYTES,
    Into,
    Out,
    awaits,
    begun,
    may_end,
    may_go_back,
    runs_on,
)

BEFORE = Entry("a" * 64, "w1", 4, 1)
MOVED = Entry("a" * 64, "w2", 5, 1, move=Move("w1"))


def test_the_target_waits_until_the_data_of_this_epoch_has_arrived() -> None:
    assert awaits(MOVED, None) and awaits(MOVED, Into(5)) and awaits(MOVED, Into(5, placing=True))
    assert awaits(MOVED, Into(4, has_arrived=True)), "what came in an earlier move is old"
    assert not awaits(MOVED, Into(5, has_arrived=True))
    assert BEFORE.move is UNSET and not awaits(BEFORE, None)


def test_the_source_runs_on_until_it_has_signed_the_handover_of_this_epoch() -> None:
    assert runs_on(MOVED, Out(5, BEFORE)) == BEFORE == runs_on(MOVED, Out(5, BEFORE, stopping=True))
    assert runs_on(MOVED, Out(5, BEFORE, handover=b"signed")) is None
    assert runs_on(MOVED, Out(4, BEFORE)) is None and runs_on(MOVED, None) is None
    assert runs_on(MOVED, Out(5)) is None, "it never had the data"


def test_data_that_was_handed_over_and_not_taken_may_go_on_where_it_is() -> None:
    assert may_go_back(Out(5, BEFORE, handover=b"signed"), 6)
    assert not may_go_back(Out(5, BEFORE, handover=b"signed"), 7), "another move was between"
    assert not may_go_back(Out(5, handover=b"signed"), 6), "it had said that it never had the data"
    assert not may_go_back(Out(5, BEFORE), 6) and not may_go_back(None, 6)


def test_half_a_copy_of_an_earlier_move_is_not_forgotten() -> None:
    assert begun(None, 5) == Into(5) and begun(Into(5, number=2), 5) == Into(5, number=2)
    assert begun(Into(5, number=2), 7) == Into(7, left=(5,))
    assert begun(Into(7, left=(5,)), 9) == Into(9, left=(5, 7))
    assert begun(Into(5, has_arrived=True), 7) == Into(7) == begun(Into(5, is_tidy=True), 7)


@pytest.mark.parametrize(
    ("passes", "new_bytes", "took_s", "ready", "ends"),
    [
        (1, SMALL_BYTES, 60.0, 1, True),
        (1, SMALL_BYTES + 1, BRIEF_S, 1, True),
        (1, SMALL_BYTES + 1, BRIEF_S + 1, 1, False),
        (PASSES_MAX, SMALL_BYTES + 1, BRIEF_S + 1, PASSES_MAX, True),
        (2, 0, 0.0, 1, False),
        (0, 0, 0.0, 0, False),
    ],
)
def test_the_last_pass_is_a_small_one_and_the_target_is_level(
    passes: int, new_bytes: int, took_s: float, ready: int, ends: bool
) -> None:
    assert may_end(passes, new_bytes, took_s, ready) is ends
