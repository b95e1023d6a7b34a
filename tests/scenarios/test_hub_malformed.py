"""No bytes make the hub fail: every malformed request gets a refusal in words, never a 5xx (S03, safety §0.7)."""

import logging
import random
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fleets.build import grown_mailbox
from tests.fleets.counts import SOAK
from tests.fleets.serving import ALICE, NOBODY, Served, connected, get, raw, served, stamped

HOST = b"Host: localhost\r\n"
POST = HOST + b"Content-Type: application/json\r\n"
RANDOM_REQUESTS = 10_000 if SOAK else 1_000
PATIENCE_S = 0.4  # for the answer to a request that may be incomplete


@pytest.fixture(scope="module")
def hub() -> Iterator[Served]:
    with served(grown_mailbox(2)) as found:
        yield found


REFUSED: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "unknown path": (b"GET /nope HTTP/1.1\r\n" + HOST + b"\r\n", (404,)),
    "path with dots": (b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", (404,)),
    "path that is no text": (b"GET /v1/blobs/\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n", (400, 404)),
    "digest that is none": (b"GET /v1/blobs/abc HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "number that is none": (b"GET /v1/revisions/0 HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "number that is huge": (b"GET /v1/revisions/%s HTTP/1.1\r\n" % (b"9" * 99) + HOST + b"\r\n", (400,)),
    "negative limit": (b"GET /v1/history?limit=-1 HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "limit twice": (b"GET /v1/history?limit=1&limit=2 HTTP/1.1\r\n" + HOST + b"\r\n", (400,)),
    "limit in other digits": ("GET /v1/history?limit=²  HTTP/1.1\r\n".encode() + HOST + b"\r\n", (400,)),
    "more links than a page": (b"GET /v1/links?first=1&last=99999 HTTP/1.1\r\n" + HOST + b"\r\n", (404,)),
    "unknown method": (b"BREW /v1/head HTTP/1.1\r\n" + HOST + b"\r\n", (400, 405)),
    "wrong method": (b"DELETE /v1/head HTTP/1.1\r\n" + HOST + b"\r\n", (405,)),
    "no host": (b"GET /v1/head HTTP/1.1\r\n\r\n", (400,)),
    "two hosts": (b"GET /v1/head HTTP/1.1\r\n" + HOST + HOST + b"\r\n", (400,)),
    "too many headers": (
        b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"H%d: 1\r\n" % n for n in range(300)) + b"\r\n",
        (400,),
    ),
    "too long a header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 9_000 + b"\r\n\r\n", (400, 431)),
    "too long a line": (b"GET /?" + b"a" * 9_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", (400, 414)),
    "endless head": (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000, (400, 431)),
    "folded header": (b"GET /v1/head HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", (400,)),
    "space before colon": (b"GET /v1/head HTTP/1.1\r\n" + HOST + b"Content-Length : 3\r\n\r\nabc", (400,)),
    "two lengths": (
        b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        (400,),
    ),
    "length and chunks": (
        b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        (400,),
    ),
    "chunks in disguise": (b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Transfer-Encoding: xchunked\r\n\r\n", (400,)),
    "chunks before chunks": (
        b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Transfer-Encoding: chunked, identity\r\n\r\n",
        (400,),
    ),
    "broken chunk": (b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", (400,)),
    "absurd length": (b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: %s\r\n\r\n" % (b"9" * 30), (400, 413)),
    "negative length": (b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: -1\r\n\r\n", (400,)),
    "signed length": (b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: +2\r\n\r\n{}", (400,)),
    "compressed body": (
        b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        (415,),
    ),
    "unknown expectation": (
        b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Expect: miracles\r\nContent-Length: 2\r\n\r\n{}",
        (417,),
    ),
    "another protocol": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20, (400,)),
    "another version": (b"GET /v1/head HTTP/9.9\r\n" + HOST + b"\r\n", (400, 505)),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 404, 405)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_malformed_request_is_refused_with_a_remedy(hub: Served, case: str) -> None:
    """Of an operator as of anybody; to a stranger it may also be said that he is one."""
    sent, statuses = REFUSED[case]
    for who, allowed in ((ALICE, statuses), (NOBODY, (*statuses, 401))):
        answer = raw(hub, stamped(hub, sent, who))
        assert answer.status in allowed
        assert answer.status < 500
        assert answer.json().keys() == {"code", "message", "remedy"}
        assert answer.json()["remedy"]


def test_a_wrong_method_is_told_the_right_ones(hub: Served) -> None:
    for sent, allow in ((b"PUT /v1/head HTTP/1.1\r\n", "GET, HEAD"), (b"GET /v1/blobs HTTP/1.1\r\n", "POST")):
        assert raw(hub, stamped(hub, sent + HOST + b"\r\n")).headers["allow"] == allow


OLD_AND_ODD: dict[str, bytes] = {
    "HTTP/1.0": b"GET /v1/head HTTP/1.0\r\n" + HOST + b"\r\n",
    "no host, and HTTP/1.0": b"GET /v1/head HTTP/1.0\r\n\r\n",
    "absolute form": b"GET http://elsewhere/v1/head HTTP/1.1\r\n" + HOST + b"\r\n",
    "a body nobody asked for": b"GET /v1/head HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc",
    "parameters nobody knows": b"GET /v1/head?since=the_next_release HTTP/1.1\r\n" + HOST + b"\r\n",
}


@pytest.mark.parametrize("case", OLD_AND_ODD)
def test_an_odd_but_clear_request_is_answered(hub: Served, case: str) -> None:
    assert raw(hub, stamped(hub, OLD_AND_ODD[case])).json()["head"]["number"] == 2


def test_a_head_request_has_no_body(hub: Served) -> None:
    with connected(hub) as line:
        line.sendall(stamped(hub, b"HEAD /v1/head HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"))
        read = b""
        while piece := line.recv(4096):
            read += piece
    assert read.startswith(b"HTTP/1.1 200 ")
    assert read.endswith(b"\r\n\r\n")


def test_requests_sent_at_once_are_answered_in_order(hub: Served) -> None:
    with connected(hub) as line:
        asked = (b"GET /v1/revisions/%d HTTP/1.1\r\n" % n + HOST + b"\r\n" for n in (1, 2, 9))
        line.sendall(b"".join(stamped(hub, sent) for sent in asked))
        read = b""
        while read.count(b"HTTP/1.1 ") < 3 or not read.endswith(b"}"):
            read += line.recv(65536)
    assert [part[:3] for part in read.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"404"]


# ---- at random

METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"get", b"\x00", b"POST ")
PATHS = (
    b"/v1/head",
    b"/v1/blobs",
    b"/v1/revisions",
    b"/",
    b"*",
    b"//v1/head",
    b"/v1/links?first=%00&last=a",
    b"/\xff",
    b"/%",
    b"/v1/blobs/%2e%2e",
    b"/v1/history?newest=1e9",
    b"http://[::1",
    b"/v1/head\r\nX: y",
    b"/v1/revisions/1/",
    b"hub:1",
    b"/v1/join",
    b"/v1/check-in",
    b"/v1/orders?node=%F0",
    b"/v1/revocations",
    b"/v1/salvage",
    b"/v1/tokens/0123456789abcdef/revocation",
)
VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 x", b"")
LENGTHS = (b"-1", b"abc", b"9" * 20, b"5,6", b"0x10", b"3 3", b"", b"1e3", b"\xb2")
BODIES = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"NaN",
    b"{",
    b'{"blobs":1}',
    b'{"blobs":{"x":"y"}}',
    b'{"a":' * 3_000,
    b"[" * 9_000,
    b'{"blobs":{},"blobs":[]}',
    b'{"wire":' + b"9" * 4_000 + b"}",
    b'{"wire":1e999}',
    b'{"header":"\\ud800"}',
    b'{"node":"w1","wait_s":1e400}',
    b'{"node":"w1","pulse":{"pulse":"eyJ9","signature":""},"heartbeat":true}',
    b'{"enrolment":{"invite":{"invite":"AA==","signatures":[]},"joining":"","signature":"","possession":""},"name":"w1"}',
    b'{"order":"e30=","arguments":"e30=","signatures":["x"]}',
    b'{"revocation":"e30=","signatures":[""]}',
    b'{"fleet":"","node":"\\u0000","links":[{"header_bytes":"e30=","signatures":[],"trust_bytes":""}]}',
    b"\xff\xfe",
)
EXTRA = (
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Expect: x\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    b"Connection: close\r\n",
    b": empty\r\n",
    b"No colon\r\n",
    b"X: \x00\r\n",
    b"Signature-Input: sig1=()\r\n",
    b"Signature: holdfast=:AAAA:\r\n",
    b"Authorization: Basic YTpi\r\n",
    b"Authorization: Bearer hf_\xff\r\n",
    b"Holdfast-Session: AAAA\r\n",
    b"Holdfast-Session: \xff\r\n",
    b"Content-Digest: md5=:AA==:\r\n",
    b"Cookie: " + b"a" * 9_000 + b"\r\n",
    HOST,
)


def one_of(dice: random.Random) -> bytes:
    body = dice.choice(BODIES) if dice.random() < 0.7 else dice.randbytes(dice.randrange(300))
    if dice.random() < 0.1:
        return body
    length = dice.choice(LENGTHS) if dice.random() < 0.3 else b"%d" % len(body)
    head = b" ".join((dice.choice(METHODS), dice.choice(PATHS), dice.choice(VERSIONS))) + b"\r\n"
    extra = b"".join(dice.choice(EXTRA) for _ in range(dice.randrange(3)))
    return head + POST + b"Content-Length: " + length + b"\r\n" + extra + b"\r\n" + body


def test_random_requests_never_make_it_fail_and_good_ones_in_between_are_served(
    hub: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    dice = random.Random(5)
    sent = [one_of(dice) for _ in range(RANDOM_REQUESTS)]

    def hurt(request: bytes) -> int:
        who = (ALICE, NOBODY)[len(request) % 2]
        with connected(hub) as line:
            try:
                line.sendall(stamped(hub, request, who))
                line.settimeout(PATIENCE_S)  # an incomplete request need not be waited for
                answer = line.recv(64)
            except (TimeoutError, ConnectionError, ssl.SSLError):
                return 0
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else 0

    statuses: list[int] = []
    with ThreadPoolExecutor(16) as threads:
        for at in range(0, len(sent), 100):
            statuses += threads.map(hurt, sent[at : at + 100])
            assert [get(hub, target).status for target in ("/v1/head", "/v1/applied")] == [200, 200]
    assert len(statuses) == RANDOM_REQUESTS
    assert max(statuses) < 500
    assert {400, 401, 404, 405} <= set(statuses)
    assert statuses.count(0) < RANDOM_REQUESTS / 2, "most were answered, not just cut off"
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR], caplog.text
