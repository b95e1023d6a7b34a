"""X14: from which revision a node starts over when it lost what it accepted."""

from typing import Any

import pytest

from holdfast.agent.acceptance.anchors import Anchors
from holdfast.errors import Failed
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD, Head
from holdfast.ports.acceptance import Accepted


def head(number: int) -> Head:
    return Head(number, f"{number:064x}")


def accepted(number: int, **changed: Any) -> Accepted:
    whole: dict[str, Any] = {"manifest": b"m", "in_force": b"m"}
    return Accepted("f" * 64, head(number), Link(b"", (), b""), **(whole | changed))


def test_what_is_in_force_as_a_whole_becomes_the_anchor() -> None:
    stored: list[tuple[Head, Head]] = []
    anchors = Anchors(head(1), NO_HEAD, lambda vouched, newest: stored.append((vouched, newest)))
    anchors.move(accepted(7))
    anchors.move(accepted(7))
    assert stored == [(head(7), head(7))] and (anchors.vouched, anchors.accepted) == (head(7), head(7))


@pytest.mark.parametrize(
    "changed",
    [{"in_force": b"other"}, {"unread": True}, {"manifest": b"", "in_force": b"", "said": b"m"}],
    ids=["something is parked", "a manifest was not read", "the node is not named"],
)
def test_a_revision_that_is_not_in_force_as_a_whole_is_not_vouched_for(changed: dict[str, Any]) -> None:
    """Else a change that lacks a grade would be in force after agent.db is lost."""
    stored: list[tuple[Head, Head]] = []
    anchors = Anchors(head(1), NO_HEAD, lambda vouched, newest: stored.append((vouched, newest)))
    anchors.move(accepted(7, **changed))
    assert stored == [(head(1), head(7))]


def test_anchors_never_move_back() -> None:
    anchors = Anchors(head(5), head(9), lambda vouched, newest: pytest.fail("nothing is to be written"))
    anchors.move(accepted(5))
    assert (anchors.vouched, anchors.accepted) == (head(5), head(9))


def test_what_cannot_be_written_is_written_later() -> None:
    stored: list[Head] = []
    full = [True]

    def store(vouched: Head, newest: Head) -> None:
        if full:
            raise Failed("the disk is full", remedy="free some space")
        stored.append(newest)

    anchors = Anchors(head(1), NO_HEAD, store)
    anchors.move(accepted(7))
    assert anchors.accepted == NO_HEAD
    full.clear()
    anchors.move(accepted(7))
    assert stored == [head(7)]
