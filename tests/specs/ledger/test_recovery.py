"""A commit cut short is settled by looking at where head is now (anchors.md §2)."""

from holdfast.ledger.recovery import settle
from holdfast.model.record import Recovery
from holdfast.model.revision import Head

BASE, TARGET, OTHER = "b" * 64, "c" * 64, "d" * 64
RECORD = Recovery("ab", 3, BASE, TARGET, 0.0, ("1" * 64, "2" * 64))


def test_head_reached_the_target_only_the_record_was_left() -> None:
    settled = settle(RECORD, Head(4, TARGET), set(RECORD.blobs))
    assert (settled.outcome, settled.drop_blobs) == ("finished", ())


def test_nothing_had_moved_the_staged_contents_are_litter() -> None:
    settled = settle(RECORD, Head(3, BASE), {"1" * 64})
    assert (settled.outcome, settled.drop_blobs) == ("discarded", ("2" * 64,))


def test_somebody_else_went_on_and_what_he_needs_stays() -> None:
    settled = settle(RECORD, Head(4, OTHER), {"2" * 64})
    assert (settled.outcome, settled.drop_blobs) == ("overtaken", ("1" * 64,))
