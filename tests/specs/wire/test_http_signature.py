"""Signed requests (RFC 9421, I-12, C-06): our shape, the RFC's meaning, and every way to tamper with it."""

import base64
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver
from http_message_signatures.algorithms import ED25519
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.errors import Unauthenticated
from holdfast.model import ssh_key
from holdfast.wire import http_signature
from holdfast.wire.http_signature import Parsed

SEED, OTHER_SEED = b"node".ljust(32), b"another node".ljust(32)
KEY, OTHER = MemoryIdentityKey(SEED), MemoryIdentityKey(OTHER_SEED)
NOW_S = 1_700_000_000
FLEET = sha256(b"fleet").hexdigest()
TO = ssh_key.fingerprint(ssh_key.parse(MemoryIdentityKey(b"hub".ljust(32)).line))
NONCE = base64.b64encode(bytes(range(16))).decode()
BODY = b'{"node":"w1"}'

Headers = dict[str, str]


def signed(
    method: str = "POST", target: str = "/v1/check-in?x=1", body: bytes | None = BODY, key: MemoryIdentityKey = KEY
) -> Headers:
    return http_signature.sign(key, method, target, body, FLEET, TO, NOW_S, NONCE)


def accept(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Parsed:
    """Everything a recipient checks that does not need to know anybody."""
    parsed = http_signature.read(method, target, headers)
    http_signature.check_signature(parsed)
    http_signature.check_body(parsed, body)
    return parsed


def refuse(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as raised:
        accept(method, target, headers, body)
    assert raised.value.remedy
    return raised.value


# ---- the good case


@pytest.mark.parametrize("body", [None, b"", BODY])
def test_what_was_signed_is_read_back(body: bytes | None) -> None:
    parsed = accept("POST", "/v1/check-in?x=1", signed(body=body), body or b"")
    assert (parsed.line, parsed.created_s, parsed.nonce) == (KEY.line, NOW_S, NONCE)
    assert (parsed.fleet, parsed.to) == (FLEET, TO)
    assert parsed.digest == (None if body is None else sha256(body).digest())


def test_a_fleet_without_a_revision_is_none() -> None:
    headers = http_signature.sign(KEY, "GET", "/", None, "", TO, NOW_S, NONCE)
    assert accept("GET", "/", headers, b"").fleet == "none"


def test_header_names_in_any_case_are_the_same() -> None:
    accept("POST", "/v1/check-in?x=1", {name.upper(): value for name, value in signed().items()}, BODY)


# ---- the RFC, by somebody else's library, in both directions


class Keys(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id: str) -> Any:
        return Ed25519PrivateKey.from_private_bytes(SEED)

    def resolve_public_key(self, key_id: str) -> Any:
        (point,) = ssh_key.fields(ssh_key.from_blob(base64.b64decode(key_id)))
        return Ed25519PublicKey.from_public_bytes(point)


def message(method: str, target: str, headers: Mapping[str, str]) -> Any:
    return SimpleNamespace(method=method, url=f"https://hub.example{target}", headers=dict(headers), body=None)


PIECES = st.sampled_from([*"abXY09-._~!$&'()*+,;=:@/", "%2F", "%2f", "%00", "%ff", "..", "//"])
PATHS = st.lists(PIECES, max_size=20).map("".join)
QUERIES = st.lists(PIECES | st.just("?"), min_size=1, max_size=20).map("".join)
TARGETS = st.builds(lambda path, query: f"/{path}" + (f"?{query}" if query else ""), PATHS, st.none() | QUERIES)


@given(TARGETS, st.none() | st.binary(max_size=50), st.sampled_from(["GET", "POST", "DELETE"]))
@settings(max_examples=200, deadline=None)
def test_the_library_accepts_what_we_sign(target: str, body: bytes | None, method: str) -> None:
    headers = signed(method, target, body)
    verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=Keys())
    verifier.max_clock_skew = verifier_patience()
    (found,) = verifier.verify(
        message(method, target, headers), max_age=verifier_patience(), expect_tag="holdfast", expect_label="holdfast"
    )
    assert found.label == "holdfast"
    assert accept(method, target, headers, body or b"")


def verifier_patience() -> Any:
    from datetime import timedelta

    return timedelta(days=365 * 100)


@given(TARGETS, st.none() | st.binary(max_size=50))
@settings(max_examples=100, deadline=None)
def test_we_accept_what_the_library_signs(target: str, body: bytes | None) -> None:
    from datetime import UTC, datetime

    fields = {name: value for name, value in signed("POST", target, body).items() if not name.startswith("Signature")}
    asked = message("POST", target, fields)
    covered = ["@method", "@path", "@query", *(["content-digest"] if body is not None else [])]
    HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=Keys()).sign(
        asked,
        key_id=KEY.line.split()[1],
        created=datetime.fromtimestamp(NOW_S, UTC),
        nonce=NONCE,
        label="holdfast",
        tag="holdfast",
        include_alg=True,
        use_existing_digest=body is not None,
        body=body,
        covered_component_ids=(*covered, "holdfast-fleet", "holdfast-to"),
    )
    assert asked.headers["Signature-Input"] == signed("POST", target, body)["Signature-Input"]
    accept("POST", target, asked.headers, body or b"")


# ---- tampering


def changed(text: str) -> Iterator[str]:
    """Every text that differs in one character, with what else may be harmful in its place."""
    for at, was in enumerate(text):
        for other in {chr((ord(was) + 1) % 128), was.swapcase(), " ", '"', "A", "\n", "\0", "ü"} - {was}:
            yield text[:at] + other + text[at + 1 :]
        yield text[:at] + text[at + 1 :]
        yield text[:at] + was + text[at:]


@pytest.mark.parametrize("name", ["Holdfast-Fleet", "Holdfast-To", "Content-Digest", "Signature-Input", "Signature"])
def test_no_character_of_a_header_can_be_changed(name: str) -> None:
    good = signed()
    tried = [text for text in changed(good[name]) if text != good[name]]
    assert len(tried) > 100
    for text in tried:
        refuse("POST", "/v1/check-in?x=1", good | {name: text}, BODY)


def test_no_character_of_method_path_query_or_body_can_be_changed() -> None:
    good = signed()
    for method in changed("POST"):
        if method != "POST":
            refuse(method, "/v1/check-in?x=1", good, BODY)
    for target in changed("/v1/check-in?x=1"):
        if target != "/v1/check-in?x=1":
            refuse("POST", target, good, BODY)
    for at in range(len(BODY)):
        refuse("POST", "/v1/check-in?x=1", good, BODY[:at] + bytes([BODY[at] ^ 1]) + BODY[at + 1 :])
    refuse("POST", "/v1/check-in?x=1", good, BODY + b" ")
    refuse("POST", "/v1/check-in?x=1", good, b"")


@given(TARGETS, TARGETS)
@settings(max_examples=200, deadline=None)
def test_a_signature_for_one_address_fits_no_other(one: str, other: str) -> None:
    headers = signed("GET", one, None)
    if one != other:
        refuse("GET", other, headers, b"")


def test_an_empty_query_is_no_second_spelling_of_none() -> None:
    """The RFC signs both alike; so the odd one is refused."""
    refuse("GET", "/v1/head?", signed("GET", "/v1/head", None), b"")
    with pytest.raises(Unauthenticated):
        signed("GET", "/v1/head?", None)


@pytest.mark.parametrize("name", ["Holdfast-Fleet", "Holdfast-To", "Signature-Input", "Signature"])
def test_no_header_can_be_left_out(name: str) -> None:
    good = signed()
    del good[name]
    assert refuse("POST", "/v1/check-in?x=1", good, BODY).code == "unsigned"


def test_a_digest_can_neither_be_dropped_nor_added() -> None:
    without = {name: value for name, value in signed().items() if name != "Content-Digest"}
    refuse("POST", "/v1/check-in?x=1", without, BODY)
    added = signed(body=None) | {"Content-Digest": signed()["Content-Digest"]}
    refuse("POST", "/v1/check-in?x=1", added, BODY)


def test_a_body_nobody_signed_is_refused() -> None:
    assert refuse("POST", "/v1/check-in?x=1", signed(body=None), BODY).code == "body_digest"


class Twice(dict[str, str]):
    """Headers as a server keeps them: a name may stand there twice."""

    def __init__(self, items: list[tuple[str, str]]) -> None:
        super().__init__(items)
        self._items = items

    def items(self) -> Any:
        return self._items


@pytest.mark.parametrize("name", ["Holdfast-Fleet", "Holdfast-To", "Content-Digest", "Signature-Input", "Signature"])
def test_a_header_that_stands_there_twice_is_refused(name: str) -> None:
    good = signed()
    for second in (good[name], "else"):
        for order in ([*good.items(), (name.lower(), second)], [(name.lower(), second), *good.items()]):
            refuse("POST", "/v1/check-in?x=1", Twice(order), BODY)


def odd_signature_inputs() -> dict[str, Callable[[str], str]]:
    return {
        "another label": lambda text: text.replace("holdfast=(", "sig1=("),
        "a second signature": lambda text: f"{text}, other={text.partition('=')[2]}",
        "fewer components": lambda text: text.replace(' "holdfast-to"', ""),
        "no path": lambda text: text.replace('"@path" ', ""),
        "another order": lambda text: text.replace('"@method" "@path"', '"@path" "@method"'),
        "a component twice": lambda text: text.replace('"@method"', '"@method" "@method"'),
        "a parameter on a component": lambda text: text.replace('"@path"', '"@path";req'),
        "an expiry": lambda text: text + ";expires=1900000000",
        "another algorithm": lambda text: text.replace("ed25519", "hmac-sha256"),
        "no tag": lambda text: text.replace(';tag="holdfast"', ""),
        "another tag": lambda text: text.replace('tag="holdfast"', 'tag="elsewhere"'),
        "leading zeros": lambda text: text.replace(f"created={NOW_S}", f"created=0{NOW_S}"),
        "a negative time": lambda text: text.replace("created=", "created=-"),
        "a time of a thousand digits": lambda text: text.replace("created=", "created=" + "9" * 1000),
        "white space": lambda text: text.replace(";created", "; created"),
        "a megabyte": lambda text: text + ";x" * 500_000,
        "a megabyte of components": lambda text: text.replace('"@path"', '"@path" ' * 100_000),
        "nothing": lambda text: "",
        "no nonce": lambda text: text.replace(f';nonce="{NONCE}"', ""),
        "a short nonce": lambda text: text.replace(NONCE, NONCE[:-4]),
        "truncated base64": lambda text: text.replace(NONCE, NONCE[:-1]),
        "a nonce with loose bits": lambda text: text.replace(NONCE, NONCE[:21] + "x=="),
        "an injected header": lambda text: text + "\r\nHoldfast-To: " + TO,
    }


@pytest.mark.parametrize("case", odd_signature_inputs())
def test_no_other_shape_is_understood(case: str) -> None:
    good = signed()
    odd = odd_signature_inputs()[case](good["Signature-Input"])
    assert odd != good["Signature-Input"]
    refuse("POST", "/v1/check-in?x=1", good | {"Signature-Input": odd}, BODY)


def test_the_same_shape_signed_over_less_is_refused() -> None:
    """Whoever has the key cannot sign a request that leaves the recipient open, not even by mistake."""
    good = signed()
    short = good["Signature-Input"].replace(' "holdfast-to"', "").removeprefix("holdfast=")
    digest = good["Content-Digest"]
    base = (
        f'"@method": POST\n"@path": /v1/check-in\n"@query": ?x=1\n"content-digest": {digest}\n'
        f'"holdfast-fleet": {FLEET}\n"@signature-params": {short}'
    )
    forged = base64.b64encode(KEY.sign(base.encode())).decode()
    headers = good | {"Signature-Input": f"holdfast={short}", "Signature": f"holdfast=:{forged}:"}
    refuse("POST", "/v1/check-in?x=1", headers, BODY)


def test_another_key_is_another_request() -> None:
    good, others = signed(), signed(key=OTHER)
    refuse("POST", "/v1/check-in?x=1", good | {"Signature-Input": others["Signature-Input"]}, BODY)
    refuse("POST", "/v1/check-in?x=1", good | {"Signature": others["Signature"]}, BODY)


@pytest.mark.parametrize("kind", [b"ssh-rsa", b"ssh-ed25518", b"sk-ssh-ed25519@openssh.com", b""])
def test_a_key_of_another_type_is_refused(kind: bytes) -> None:
    blob = ssh_key.pack(kind, bytes(32))
    keyid = base64.b64encode(blob.ljust(51, b"\0")[:51]).decode()
    good = signed()
    odd = good["Signature-Input"].replace(KEY.line.split()[1], keyid)
    refuse("POST", "/v1/check-in?x=1", good | {"Signature-Input": odd}, BODY)


def test_targets_that_cannot_be_signed_are_refused() -> None:
    good = signed()
    for target in (
        "",
        "*",
        "v1",
        "https://hub/v1",
        "/a b",
        "/a#b",
        "/ü",
        "/a\r\nX: y",
        "/\0",
        "/%",
        "/%g0",
        "/a\\b",
        "/" + "a" * 5000,
    ):
        refuse("POST", target, good, BODY)


@given(st.dictionaries(st.sampled_from(sorted(signed())), st.text(max_size=200)))
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_and_nothing_else_happens(headers: Headers) -> None:
    refuse("POST", "/v1/check-in?x=1", signed() | headers if headers != {} else {}, BODY)


# ---- time


@pytest.mark.parametrize(
    ("off_s", "taken"), [(0, True), (60, True), (-60, True), (61, False), (-61, False), (1e9, False)]
)
def test_a_minute_either_way_is_the_window(off_s: float, taken: bool) -> None:
    parsed = accept("POST", "/v1/check-in?x=1", signed(), BODY)
    if taken:
        http_signature.check_time(parsed, NOW_S + off_s)
        return
    with pytest.raises(Unauthenticated) as raised:
        http_signature.check_time(parsed, NOW_S + off_s)
    assert raised.value.code == "clock_skew"


def test_a_nonce_is_kept_for_as_long_as_its_request_could_come_again() -> None:
    parsed = accept("POST", "/v1/check-in?x=1", signed(), BODY)
    earliest_s = NOW_S - http_signature.WINDOW_S
    assert parsed.replayable_until_s - earliest_s >= 2 * http_signature.WINDOW_S
    with pytest.raises(Unauthenticated):
        http_signature.check_time(parsed, parsed.replayable_until_s)


# ---- what a hub says about its time


def test_a_hub_proves_its_time() -> None:
    said = http_signature.sign_response(KEY, 401, NOW_S + 500, NONCE)
    assert http_signature.verify_response(401, said, KEY.line, NONCE) == NOW_S + 500


def test_the_library_accepts_a_signed_answer() -> None:
    said = http_signature.sign_response(KEY, 401, NOW_S, NONCE)
    verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=Keys())
    answer = SimpleNamespace(status_code=401, headers=said, url="https://hub.example/", request=None)
    (found,) = verifier.verify(answer, max_age=verifier_patience(), expect_tag="holdfast", expect_label="holdfast")
    assert set(found.covered_components) >= {'"@status"', '"holdfast-time"', '"holdfast-nonce"'}


def test_a_hub_s_time_cannot_be_forged_replayed_or_borrowed() -> None:
    said = http_signature.sign_response(KEY, 401, NOW_S, NONCE)
    other_nonce = base64.b64encode(bytes(16)).decode()
    attempts: list[tuple[int, Headers, str, str]] = [
        (200, said, KEY.line, NONCE),
        (401, said, OTHER.line, NONCE),
        (401, said, KEY.line, other_nonce),
        (401, said | {"Holdfast-Nonce": other_nonce}, KEY.line, other_nonce),
        (401, said | {"Holdfast-Time": str(NOW_S + 1)}, KEY.line, NONCE),
        (401, http_signature.sign_response(OTHER, 401, NOW_S, NONCE), KEY.line, NONCE),
        (401, {}, KEY.line, NONCE),
        (401, signed(), KEY.line, NONCE),
        *((401, said | {"Signature": text}, KEY.line, NONCE) for text in changed(said["Signature"])),
    ]
    for status, headers, line, nonce in attempts:
        if headers != said or (status, line, nonce) != (401, KEY.line, NONCE):
            with pytest.raises(Unauthenticated):
                http_signature.verify_response(status, headers, line, nonce)


def test_an_answer_is_no_request() -> None:
    refuse("GET", "/", http_signature.sign_response(KEY, 401, NOW_S, NONCE), b"")
