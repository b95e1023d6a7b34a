"""S04 (pure part), C-05, H-22, W4: a key is a node's because operators said so, step by step, and for nothing else."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from msgspec.structs import replace

from holdfast.errors import Invalid
from holdfast.model.invite import TOKEN_CHARS_MAX, JoinToken, decode_token, encode_token
from holdfast.model.revision import Head
from holdfast.trust import enrolment as judge
from tests.fleets import enrolments
from tests.fleets.enrolments import NODE_KEY, TRUST, enrolment, invite, revocation, signed_invite
from tests.fleets.orders import FLEET, NOW_S


def test_an_enrolment_is_believed_only_as_a_whole_s04() -> None:
    assert list(enrolments.complaints(judge)) == []


def test_what_is_believed_is_what_was_signed() -> None:
    joining = judge.verify(enrolment(), FLEET, TRUST, NOW_S + 20)
    assert (joining.node, joining.key) == ("w1", NODE_KEY.line)
    proven = judge.prove(enrolment(signed_invite(invite(replaces=True))), FLEET, TRUST)
    assert proven.invite.replaces and proven.joining.node == "w1"
    assert judge.verify_revocation(revocation(), FLEET, TRUST).key == NODE_KEY.line


TOKEN = JoinToken(signed_invite(invite()), b"s" * 32, "https://hub.example.com:9555", NODE_KEY.line, Head(4, "d" * 64))


def test_a_token_is_one_word_that_survives_a_shell() -> None:
    text = encode_token(TOKEN)
    assert text.startswith("hfj_") and text.replace("-", "").replace("_", "").isalnum()
    assert decode_token(text) == decode_token(f"  {text}\n") == TOKEN


def altered(text: str, what: bytes, into: bytes) -> str:
    """As a slip of the hand does it: still JSON, still a token, another hub."""
    body = text.removeprefix("hfj_")
    content = urlsafe_b64decode(body + "=" * (-len(body) % 4))
    assert content.count(what) == 1
    return "hfj_" + urlsafe_b64encode(content.replace(what, into)).decode().rstrip("=")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with hfj_"),
        ("hf_abc", "does not begin with hfj_"),
        ("hfj_", "damaged or incomplete"),
        (encode_token(TOKEN)[:-3], "damaged or incomplete"),
        (encode_token(TOKEN)[:40], "damaged or incomplete"),
        (altered(encode_token(TOKEN), b"hub.example", b"bub.example"), "damaged or incomplete"),
        ("hfj_" + "A" * TOKEN_CHARS_MAX, "longer than"),
        (encode_token(TOKEN)[:50] + "\n" + encode_token(TOKEN)[50:], "characters that a token cannot have"),
        (encode_token(TOKEN) + "=", "characters that a token cannot have"),
        ("hfj_é", "characters that a token cannot have"),
        (encode_token(replace(TOKEN, once=b"short")), "one-time key"),
    ],
)
def test_a_token_that_is_none_is_met_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        decode_token(text)
    assert "holdfast node invite" in refused.value.remedy
