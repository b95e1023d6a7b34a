"""What two nodes say to each other about a move counts only if the right one signed it for this move."""

import pytest
from msgspec.structs import replace

from holdfast.errors import Corrupt
from holdfast.model.move import FORMAT, LAST, Decided, Pass, Ready
from holdfast.trust import moves
from tests.fleets.desks import key_of

PASS = Pass(FORMAT, "f" * 64, "web", 5, "w1", "w2", 3, "a" * 64, 1, 2, 3, is_last=True)
READY = Ready(FORMAT, "f" * 64, "web", 5, "w2", 3)
SOURCE, TARGET = key_of("w1"), key_of("w2")


def test_a_word_is_read_as_it_was_signed() -> None:
    assert moves.passed(moves.sign(SOURCE, PASS), replace(PASS, number=0), SOURCE.line).word == PASS
    assert moves.ready(moves.sign(TARGET, READY), replace(READY, number=0), TARGET.line).word == READY


@pytest.mark.parametrize(
    "other",
    [{"fleet": "e" * 64}, {"service": "api"}, {"epoch": 4}, {"source": "w3"}, {"target": "w3"}, {"format": 2}],
)
def test_a_pass_of_another_move_is_refused(other: dict[str, object]) -> None:
    with pytest.raises(Corrupt):
        moves.passed(moves.sign(SOURCE, replace(PASS, **other)), PASS, SOURCE.line)


@pytest.mark.parametrize(
    "other", [{"fleet": "e" * 64}, {"service": "api"}, {"epoch": 4}, {"target": "w3"}, {"format": 2}]
)
def test_a_word_of_the_target_about_another_move_is_refused(other: dict[str, object]) -> None:
    with pytest.raises(Corrupt):
        moves.ready(moves.sign(TARGET, replace(READY, **other)), READY, TARGET.line)


@pytest.mark.parametrize(
    "other",
    [
        {"number": -1}, {"number": LAST + 1}, {"revision": -1}, {"revision": 1 << 60}, {"files": -1},
        {"size_bytes": -1}, {"new_bytes": 1 << 60}, {"manifest": "../x"},
        {"schedules": {"nightly": Decided(-1e300, "0 3 * * *", "UTC")}},
        {"schedules": {"nightly": Decided(1e300, "0 3 * * *", "UTC")}},
    ],
)  # fmt: skip
def test_a_number_that_no_node_has_is_refused(other: dict[str, object]) -> None:
    """The target notes these: a time before all calendars would end its schedules, also those of other services."""
    with pytest.raises(Corrupt):
        moves.passed(moves.sign(SOURCE, replace(PASS, **other)), PASS, SOURCE.line)
    if "number" in other:
        with pytest.raises(Corrupt):
            moves.ready(moves.sign(TARGET, replace(READY, **other)), READY, TARGET.line)


def test_a_word_that_another_key_signed_or_that_was_changed_is_refused() -> None:
    with pytest.raises(Corrupt):
        moves.passed(moves.sign(TARGET, PASS), PASS, SOURCE.line)
    with pytest.raises(Corrupt):
        moves.passed(moves.sign(SOURCE, PASS).replace(b"statement", b"statemend"), PASS, SOURCE.line)
    with pytest.raises(Corrupt):
        moves.ready(moves.sign(SOURCE, PASS), READY, SOURCE.line)
