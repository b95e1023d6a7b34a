"""Which key is in force: the revision's, unless somebody joined since on top of exactly that."""

from holdfast.hub.nodes.registry import EnrolmentRecord, key_in_force
from holdfast.model.invite import Enrolment, SignedInvite

NOTHING = Enrolment(SignedInvite(b"", ()), b"", "", "")


def record(key: str, over: str = "") -> EnrolmentRecord:
    return EnrolmentRecord(NOTHING, key, 0.0, over)


def test_without_an_enrolment_the_revision_decides() -> None:
    assert key_in_force("", None) == ""
    assert key_in_force("a", None) == "a"


def test_a_join_counts_until_the_revision_says_something_newer() -> None:
    assert key_in_force("", record("b")) == "b"
    assert key_in_force("b", record("b")) == "b", "recorded by the next apply"
    assert key_in_force("a", record("b", over="a")) == "b", "a replacement, not recorded yet"
    assert key_in_force("c", record("b", over="a")) == "c", "operators signed another key since"
    assert key_in_force("c", record("b")) == "c"
