"""The number of the next credential, and when a node asks again for one that its provider took back."""

import pytest

from holdfast.reconcile import needs
from holdfast.reconcile.grants import Book, Grant, next_of
from holdfast.reconcile.needs import Held

HELD = Held("p1", "logins", "a wish", 3, "sha256:a", b"", got_s=1000.0)


def book(*grants: Grant) -> Book:
    return Book("web", "db", "w1", "a key", grants)


@pytest.mark.parametrize(
    ("grants", "has", "generation"),
    [
        ((), 0, 1),
        ((), 3, 4),  # all were taken back: the node takes no number twice
        ((Grant(2, "h", "logins", 1, "held"),), 2, 3),
        ((Grant(2, "h", "logins", 1, "held"),), 5, 6),  # this provider was put back
    ],
)
def test_the_next_credential_has_a_number_that_the_node_does_not_have(
    grants: tuple[Grant, ...], has: int, generation: int
) -> None:
    assert next_of(book(*grants), has) == (generation, None)


def test_a_credential_that_is_gone_is_asked_for_again_once_and_not_sooner_than_a_sweep_after_it_was_got() -> None:
    gone = ("sha256:a",)
    assert needs.taken_back(HELD, (), 5000, 100) is None and needs.taken_back(HELD, ("sha256:b",), 5000, 100) is None
    assert needs.taken_back(HELD, gone, 1099, 100) is None, "a provider that denies each one makes little work"
    lost = needs.taken_back(HELD, gone, 1100, 100)
    assert lost is not None and lost.wish == "" and lost.handle == HELD.handle
    assert needs.taken_back(lost, gone, 5000, 100) is None
