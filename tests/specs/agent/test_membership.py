"""What `agent join` writes down: an enrolment that anybody can verify, and no secret."""

import pytest

from holdfast.agent import membership
from holdfast.errors import Corrupt, Invalid
from holdfast.model.invite import JoinToken
from holdfast.model.revision import Head
from holdfast.trust.enrolment import verify
from tests.fleets.enrolments import NODE_KEY, ONCE, OTHER_KEY, TRUST, invite, signed_invite
from tests.fleets.orders import FLEET, NOW_S

TOKEN = JoinToken(signed_invite(invite()), b"s" * 32, "https://hub.test:9555", "ssh-ed25519 AAAA", Head(3, "a" * 64))


def test_an_enrolment_verifies_and_survives_the_disk_without_the_secret() -> None:
    made = membership.enrol(TOKEN, ONCE, NODE_KEY, NOW_S, "192.0.2.1")
    joining = verify(made.enrolment, FLEET, TRUST, NOW_S)
    assert (joining.node, joining.key) == ("w1", NODE_KEY.line)
    content = membership.encode(made)
    assert membership.decode(content, "identity.json") == made
    assert b"ssssssss" not in content and b"c3Nzc3Nz" not in content


def test_a_token_with_another_one_time_key_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(Invalid):
        membership.enrol(TOKEN, OTHER_KEY, NODE_KEY, NOW_S, "")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"fleet":1}', b"[" * 5000])
def test_a_damaged_identity_is_said(content: bytes) -> None:
    with pytest.raises(Corrupt) as trouble:
        membership.decode(content, "/x/identity.json")
    assert "/x/identity.json" in trouble.value.message and "agent join" in trouble.value.remedy


def test_a_newer_release_may_have_written_more() -> None:
    """n+1: downgrading an agent must not lock it out of its own identity."""
    content = membership.encode(membership.enrol(TOKEN, ONCE, NODE_KEY, NOW_S, ""))
    assert membership.decode(content.replace(b"{", b'{"mood": "fine",', 1), "x").node == "w1"
