"""Tokens read, expire, end, and are kept as hashes (design §3)."""

import hashlib
import re

import pytest

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.errors import Conflict, Invalid, Unauthenticated
from holdfast.hub.http import tokens as hub_tokens
from holdfast.hub.http.tokens import KEPT_S, Tokens
from holdfast.ledger import keys
from holdfast.model.principal import Principal
from holdfast.model.token import EXPIRES_S_MAX, NewToken
from holdfast.trust import tokens

NOW_S = 1_700_000_000
ALICE = Principal("operator", "alice", "ssh-ed25519 AAAA", grade="root")


class Place:
    def __init__(self) -> None:
        self.clock = VirtualClock(float(NOW_S))
        self.store = MemoryStore()
        self.desk = Tokens(self.store, self.clock, SeededRandom(7))

    def made(self, name: str = "ci", expires_in_s: int = 3600) -> NewToken:
        return self.desk.create(ALICE, name, expires_in_s)

    def refusal(self, text: str) -> Unauthenticated:
        with pytest.raises(Unauthenticated) as raised:
            self.desk.principal_of(text)
        assert text == "" or text not in raised.value.message + raised.value.remedy
        return raised.value


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_token_makes_a_viewer_and_nothing_more(place: Place) -> None:
    made = place.made()
    assert place.desk.principal_of(made.text) == Principal("viewer", "ci", made.token.id)
    assert re.fullmatch(r"hf_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", made.text)
    assert made.token.created_by == "operator:alice"


def test_the_secret_is_nowhere_in_the_ledger_nor_in_what_is_shown(place: Place) -> None:
    made = place.made()
    secret = made.text.split("_", 2)[2]
    kept = b"".join(record.value for record in place.store.scan(""))
    assert secret.encode() not in kept
    assert hashlib.sha256(made.text.encode()).hexdigest().encode() in kept
    assert secret not in repr(made) + str(made) + repr(place.desk.list())
    assert "hash" not in place.desk.list()[0].__struct_fields__


def test_a_token_ends_when_it_is_said_to(place: Place) -> None:
    made = place.made(expires_in_s=60)
    place.clock.sleep(59)
    place.desk.principal_of(made.text)
    place.clock.sleep(1)
    assert place.refusal(made.text).code == "token_expired"


def test_a_revoked_token_is_refused_at_once_and_stays_so(place: Place) -> None:
    made, other = place.made(), place.made("other")
    ended = place.desk.revoke(made.token.id)
    assert ended.revoked_s == NOW_S
    assert place.refusal(made.text).code == "token_revoked"
    place.desk.principal_of(other.text)
    place.clock.sleep(5)
    assert place.desk.revoke(made.token.id) == ended


def test_every_changed_character_is_another_token(place: Place) -> None:
    text = place.made().text
    for at, was in enumerate(text):
        for other in ("A" if was != "A" else "B", "\n", "é", ""):
            place.refusal(text[:at] + other + text[at + 1 :])
    for odd in ("", "hf_", text + "A", text + "\n", " " + text, text.upper(), text * 1000, "\0"):
        place.refusal(odd)


def test_what_is_wrong_is_told_only_to_the_holder(place: Place) -> None:
    made = place.made()
    place.desk.revoke(made.token.id)
    guess = made.text[:-1] + ("A" if made.text[-1] != "A" else "B")
    unknown = "hf_" + "0" * 16 + made.text[19:]
    assert place.refusal(guess).message == place.refusal(unknown).message
    assert place.refusal(guess).code == "token_refused"


def test_no_two_tokens_are_alike(place: Place) -> None:
    assert len({place.made().text for _ in range(50)}) == 50


def test_the_list_is_newest_first_and_forgets_what_ended_long_ago(place: Place) -> None:
    old = place.made("old", 60)
    place.clock.sleep(KEPT_S + 100)
    new = place.made("new")
    assert [token.id for token in place.desk.list()] == [new.token.id]
    assert place.store.get(keys.token(old.token.id)) is None


def test_there_is_an_end_to_how_many(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_tokens, "TOKENS_MAX", 3)
    for _ in range(3):
        place.made()
    with pytest.raises(Conflict, match="already"):
        place.made()


@pytest.mark.parametrize("expires_in_s", [0, -1, EXPIRES_S_MAX + 1])
def test_no_token_lives_for_ever(place: Place, expires_in_s: int) -> None:
    with pytest.raises(Invalid):
        place.made(expires_in_s=expires_in_s)


@pytest.mark.parametrize("token_id", ["0" * 16, "", "../head", "x" * 100, "hf_\n"])
def test_an_unknown_token_cannot_be_revoked(place: Place, token_id: str) -> None:
    with pytest.raises(Invalid) as raised:
        place.desk.revoke(token_id)
    assert raised.value.code == "not_found"


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("Bearer hf_x", True),
        ("bearer hf_x", True),
        ("Basic aGZfeA==", False),
        ("hf_x", False),
        ("", False),
        ("Bearer", True),  # an empty token, refused by its form
    ],
)
def test_only_bearer_is_understood(header: str, taken: bool) -> None:
    if taken:
        assert not tokens.bearer(header).startswith(" ")
        return
    with pytest.raises(Unauthenticated):
        tokens.bearer(header)


def test_a_giant_header_is_cut_before_it_is_looked_at() -> None:
    assert len(tokens.bearer("Bearer " + "x" * 10_000_000)) < 200
    with pytest.raises(Unauthenticated):
        tokens.id_of(tokens.bearer("Bearer " + "x" * 10_000_000))


@pytest.mark.parametrize("size_bytes", [0, 39, 41])
def test_a_token_needs_all_its_randomness(size_bytes: int) -> None:
    with pytest.raises(ValueError):
        tokens.mint(bytes(size_bytes))
