"""Who can open what is packed from now on: a reader that is gone knows the old key, so another one begins."""

import pytest

from holdfast.reconcile.generations import Generation, turn

KNOWN = Generation(1, "age1key", ("alice", "w1"), b"sealed")


@pytest.mark.parametrize(
    ("readers", "wanted"),
    [
        ({"alice", "w1"}, "keep"),
        ({"alice", "bob", "w1"}, "readdress"),
        ({"w1"}, "begin"),
        ({"bob", "w1"}, "begin"),
        ({"alice", "w2"}, "begin"),
    ],
)
def test_more_readers_get_the_same_key_and_fewer_a_new_one(readers: set[str], wanted: str) -> None:
    assert turn(KNOWN, readers) == wanted


def test_without_a_key_there_is_a_first_one() -> None:
    assert turn(None, {"alice"}) == "begin"
