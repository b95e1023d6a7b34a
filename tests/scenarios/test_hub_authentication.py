"""Who is speaking: what a signature covers, when it holds, and that it counts once (W8, H-33, S08, D1, D2)."""

import base64
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import Unauthenticated
from holdfast.wire import http_signature, session_header
from tests.fleets.build import ALICE_SIGNER, commit, grown_mailbox, mailbox, operator_signer, small_fleet
from tests.fleets.serving import (
    ALICE,
    NOBODY,
    Caller,
    Machine,
    Person,
    Reply,
    Served,
    get,
    nonce,
    post,
    raw,
    request,
    served,
)

MEND = b'{"blobs":{}}'


@pytest.fixture(scope="module")
def hub() -> Iterator[Served]:
    with served(grown_mailbox(2)) as found:
        yield found


class Says(Caller):
    """Exactly these headers."""

    def __init__(self, **headers: str) -> None:
        self._headers = {name.replace("_", "-"): text for name, text in headers.items()}

    def headers(self, hub: Served, method: str, target: str, body: bytes | None) -> dict[str, str]:
        return self._headers


def refusal(answer: Reply) -> tuple[int, str]:
    return answer.status, answer.json()["code"]


# ---- time


@pytest.mark.parametrize("skew_s", [-3600, -75, 75, 3600, 10**9])
def test_a_clock_that_is_wrong_is_told_the_time_by_the_hub_itself(hub: Served, skew_s: int) -> None:
    who = Person("alice", ALICE_SIGNER, skew_s=skew_s)
    sent = request(hub, "GET", "/v1/status", as_=who)
    answer = raw(hub, sent)
    assert refusal(answer) == (401, "clock_skew")
    mine = sent.decode().partition('nonce="')[2].partition('"')[0]
    told_s = http_signature.verify_response(401, answer.headers, hub.hub_key, mine)
    assert abs(told_s - time.time()) < 5
    for wrong in (nonce(), mine[::-1]):
        with pytest.raises(Unauthenticated):
            http_signature.verify_response(401, answer.headers, hub.hub_key, wrong)
    with pytest.raises(Unauthenticated):
        http_signature.verify_response(401, answer.headers, ALICE.key.line, mine)


@pytest.mark.parametrize("skew_s", [-50, 50])
def test_clocks_may_differ_by_less_than_a_minute(hub: Served, skew_s: int) -> None:
    assert get(hub, "/v1/status", Person("alice", ALICE_SIGNER, skew_s=skew_s)).status == 200


# ---- what the signature covers


def changed(hub: Served, old: bytes, new: bytes, method: str = "GET", target: str = "/v1/history?limit=1") -> Reply:
    sent = request(hub, method, target, MEND if method == "POST" else None)
    assert sent.count(old) >= 1, sent
    return raw(hub, sent.replace(old, new, 1))


def test_no_part_of_a_request_can_be_changed_after_it_was_signed(hub: Served) -> None:
    invalid = (401, "signature_invalid")
    assert refusal(changed(hub, b"/v1/history", b"/v1/nodes%3f", target="/v1/history")) == invalid
    assert refusal(changed(hub, b"?limit=1", b"?limit=9")) == invalid
    assert refusal(changed(hub, b"?limit=1", b"")) == invalid
    assert refusal(changed(hub, b"GET /", b"PUT /")) == invalid
    assert refusal(changed(hub, b"/v1/blobs", b"/v1/revisions", "POST", "/v1/blobs")) == invalid
    assert refusal(changed(hub, b'{"blobs":{}}', b'{"blobs":{ }', "POST", "/v1/blobs")) == (401, "body_digest")
    assert changed(hub, b"Host: localhost", b"Host: elsewhere").status == 200, "the name proves nothing"


def test_a_body_that_was_not_signed_is_not_read_into_anything(hub: Served) -> None:
    sent = request(hub, "POST", "/v1/blobs", None) + MEND
    sent = sent.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n", 1)
    assert refusal(raw(hub, sent)) == (401, "body_digest")


def test_each_parameter_of_a_signature_must_be_there_once_and_as_we_write_it(hub: Served) -> None:
    good = ALICE.headers(hub, "GET", "/v1/status", None)
    for name in good:
        if name == session_header.HEADER:
            continue
        lacking = {n.replace("-", "_"): v for n, v in good.items() if n != name}
        assert get(hub, "/v1/status", Says(**lacking)).status == 401, name
    twice = request(hub, "GET", "/v1/status").replace(b"Holdfast-To:", b"Holdfast-To: x\r\nHoldfast-To:", 1)
    assert raw(hub, twice).status == 401
    for old, new in ((b'alg="ed25519"', b'alg="hmac-sha256"'), (b'tag="holdfast"', b'tag="x"'), (b'"@query" ', b"")):
        assert changed(hub, old, new).status == 401, new


def test_who_signs_and_has_a_token_too_is_nobody(hub: Served) -> None:
    token = hub.token()
    both = {**ALICE.headers(hub, "GET", "/v1/status", None), **token.headers(hub, "GET", "/v1/status", None)}
    assert get(hub, "/v1/status", Says(**{n.replace("-", "_"): v for n, v in both.items()})).status == 401
    assert get(hub, "/v1/status", token).status == 200
    assert get(hub, "/v1/status", Says(Authorization="Basic YWxpY2U6eA==")).status == 401


# ---- whose it is


def test_a_session_is_worth_nothing_to_another_key(hub: Served) -> None:
    stolen = session_header.write(ALICE.certificate(hub.fleet_id))

    class Thief(Machine):
        def headers(self, hub: Served, method: str, target: str, body: bytes | None) -> dict[str, str]:
            return super().headers(hub, method, target, body) | {session_header.HEADER: stolen}

    assert refusal(get(hub, "/v1/status", Thief("thief"))) == (401, "session_refused")


def test_an_operator_who_leaves_the_trust_is_out_with_his_next_request() -> None:
    """Although his session was believed a moment ago, and its signature is remembered."""
    bob, signer = operator_signer("bob")
    person = Person("bob", signer)
    both = small_fleet(operators=(operator_signer("alice")[0], bob))
    mail = mailbox()
    commit(mail, both)
    with served(mail) as hub:
        assert get(hub, "/v1/status", person).status == 200
        commit(mail, small_fleet())
        assert refusal(get(hub, "/v1/status", person)) == (401, "unknown_operator")
        assert get(hub, "/v1/status").status == 200


def test_a_request_for_another_fleet_is_refused_and_told_which_is_served(hub: Served) -> None:
    class Lost(Person):
        def headers(self, hub: Served, method: str, target: str, body: bytes | None) -> dict[str, str]:
            created_s = int(time.time())
            to, once = hub.fingerprint, nonce()
            signed = http_signature.sign(self.key, method, target, body, "0" * 64, to, created_s, once)
            return signed | {session_header.HEADER: session_header.write(self.certificate(""))}

    class Wanderer(Machine):
        def headers(self, hub: Served, method: str, target: str, body: bytes | None) -> dict[str, str]:
            created_s = int(time.time())
            return http_signature.sign(self.key, method, target, body, "0" * 64, hub.fingerprint, created_s, nonce())

    answer = post(hub, "/v1/check-in", b'{"node":"w1"}', Wanderer("w1"))
    assert refusal(answer) == (401, "other_fleet")
    answer = get(hub, "/v1/status", Lost("lost", ALICE_SIGNER))
    assert refusal(answer) == (401, "other_fleet")
    assert answer.headers["holdfast-fleet"] == hub.fleet_id


def test_a_hub_without_a_revision_says_that_it_has_no_fleet() -> None:
    with served(mailbox()) as hub:
        good = request(hub, "GET", "/v1/status")
        assert b"Holdfast-Fleet: none\r\n" in good
        assert raw(hub, good).status == 200


# ---- once


def test_the_same_request_counts_once_however_it_comes(hub: Served) -> None:
    """50 at a time: exactly one is answered, 49 are refused and audited."""
    before = len(hub.denials(0))
    sent = request(hub, "POST", "/v1/blobs", MEND)
    with ThreadPoolExecutor(25) as threads:
        answers = list(threads.map(lambda _: raw(hub, sent), range(50)))
    assert sorted(answer.status for answer in answers) == [200] + [401] * 49
    assert {answer.json()["code"] for answer in answers if answer.status == 401} == {"replayed"}
    found = hub.denials(before + 49)[before:]
    assert [(e.principal, e.action, e.detail, e.source) for e in found] == [
        ("operator:alice", "mend", "replayed", "127.0.0.1")
    ] * 49


def test_a_refused_request_spends_nothing_and_nobody_fills_the_book_of_nonces(hub: Served) -> None:
    nonces = hub.parts.nonces
    held = len(nonces._until_s)  # type: ignore[attr-defined]
    for _ in range(20):
        assert get(hub, "/v1/tokens", hub.token()).status == 403
        assert get(hub, "/v1/nodes", Machine("stranger")).status == 403
        assert get(hub, "/v1/nodes", Person("eve", operator_signer("eve")[1])).status == 401
        assert get(hub, "/v1/nodes", NOBODY).status == 401
    assert len(nonces._until_s) == held  # type: ignore[attr-defined]
    get(hub, "/v1/nodes")
    assert len(nonces._until_s) == held + 1  # type: ignore[attr-defined]


def test_a_nonce_has_the_size_it_must_have(hub: Served) -> None:
    for wrong in (b"x", base64.b64encode(b"short"), base64.b64encode(b"a" * 17), b""):
        sent = request(hub, "GET", "/v1/status")
        mine = sent.partition(b'nonce="')[2].partition(b'"')[0]
        assert raw(hub, sent.replace(mine, wrong)).status == 401


# ---- tokens


def test_a_token_reads_until_it_is_revoked(hub: Served) -> None:
    made = post(hub, "/v1/tokens", b'{"name":"ci","expires_in_s":60}').json()
    holder = Says(Authorization=f"Bearer {made['text']}")
    assert get(hub, "/v1/head", holder).status == 200
    assert refusal(post(hub, "/v1/blobs", MEND, holder)) == (403, "permission_denied")
    assert made["text"] not in get(hub, "/v1/tokens").body.decode()
    secret = made["text"].split("_", 2)[2]  # it may have an underscore itself
    assert not any(secret.encode() in record.value for record in hub.store.scan("token/"))
    assert post(hub, f"/v1/tokens/{made['token']['id']}/revocation", b"{}").status == 200
    assert refusal(get(hub, "/v1/head", holder)) == (401, "token_revoked")
    assert get(hub, "/v1/head", holder).headers["www-authenticate"].startswith("Bearer")
