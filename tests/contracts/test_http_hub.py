"""A hub behind a URL may be absent, slow, garbled or lying; each ends in a typed failure, none in a wrong answer."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from msgspec.structs import replace

from holdfast.adapters.hub_link.exchange import HEAD_BYTES_MAX
from holdfast.adapters.hub_link.http import ANSWER_BYTES_MAX, HEADS_MAX, HttpHub
from holdfast.errors import Corrupt, Invalid, TryLater, Unreachable
from holdfast.hub.desk import Ask, Desk
from holdfast.model import canonical
from holdfast.wire import codec, messages
from tests.fleets.build import grown_mailbox, next_candidate, small_fleet
from tests.fleets.serving import served

DESK = Desk(grown_mailbox(2), b"{}")
TRUE = codec.read(DESK.applied(Ask()), messages.AppliedAnswer).revision
assert TRUE is not None


@contextmanager
def telling(*pieces: bytes, pause_s: float = 0.0, times: int = 1) -> Iterator[HttpHub]:
    """A server that reads a request and says these bytes, whatever was asked."""
    door = socket.create_server(("127.0.0.1", 0))
    door.settimeout(5)

    def tell() -> None:
        with suppress(OSError):
            for _ in range(times):
                line, _ = door.accept()
                with line:
                    line.settimeout(5)
                    line.recv(1 << 20)
                    for piece in pieces:
                        line.sendall(piece)
                        time.sleep(pause_s)

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield HttpHub(f"http://127.0.0.1:{door.getsockname()[1]}", timeout_s=1.5)
    finally:
        door.close()
        thread.join(10)


def answer(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def chunked(*pieces: bytes) -> bytes:
    body = b"".join(b"%x;x=y\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


HEAD = codec.write(messages.MendAnswer(3))
GARBAGE: dict[str, tuple[bytes, ...]] = {
    "nothing": (b"",),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n",),
    "half an answer": (answer(HEAD)[:-3],),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Le",),
    "no length": (b"HTTP/1.1 200 OK\r\n\r\n{}",),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",),
    "length and chunks": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",),
    "negative length": (b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",),
    "too long": (f"HTTP/1.1 200 OK\r\nContent-Length: {ANSWER_BYTES_MAX + 1}\r\n\r\n".encode(),),
    "absurdly long": (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 200 + b"\r\n\r\n",),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * HEAD_BYTES_MAX,),
    "interim for ever": (b"HTTP/1.1 100 Continue\r\n\r\n" * 50,),
    "a broken chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",),
    "a chunk too long": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",),
    "no JSON": (answer(b"<html>It works!</html>"),),
    "another message": (answer(b'{"unrelated":true}'),),
    "deep JSON": (answer(b'{"a":' * 50_000),),
    "an error page": (answer(b"<h1>Bad gateway</h1>", "502 Bad Gateway"),),
    "a redirect": (answer(b"", "302 Found", "Location: https://elsewhere.example/\r\n"),),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_what_is_no_answer_of_a_hub_is_unreachable(case: str) -> None:
    with telling(*GARBAGE[case]) as hub, pytest.raises(Unreachable) as raised:
        hub.status()
    assert (raised.value.code, raised.value.exit_code) == ("unreachable", 6)
    assert "--hub" in raised.value.remedy


def test_nobody_listening_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        HttpHub(f"http://127.0.0.1:{port}", 1).status()


@pytest.mark.parametrize("pieces", [(b"",) * 30, tuple(b"HTTP/1.1 200 OK\r\nX: y".ljust(99).hex(" ").encode().split())])
def test_a_hub_that_drips_is_given_up_in_time(pieces: tuple[bytes, ...]) -> None:
    started_s = time.monotonic()
    with telling(*pieces, pause_s=0.1) as hub:
        with pytest.raises(Unreachable, match="too long"):
            hub.status()
        assert time.monotonic() - started_s < 3


def test_tls_that_cannot_be_verified_is_unreachable() -> None:
    with telling(b"not TLS at all") as plain:
        hub = HttpHub(plain._url.replace("http://", "https://"), 2)
        with pytest.raises(Unreachable):
            hub.status()


def test_an_interim_answer_and_chunks_are_understood() -> None:
    with telling(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", chunked(HEAD[:5], HEAD[5:])) as hub:
        assert hub.mend({}) == 3


def test_a_connection_that_went_stale_is_replaced() -> None:
    said = answer(codec.write(messages.DamagedAnswer(())))
    with telling(said, times=3) as hub:  # says goodbye after every answer, without announcing it
        assert [hub.damaged() for _ in range(3)] == [[], [], []]


def test_a_commit_that_may_have_arrived_says_how_to_find_out() -> None:
    with telling(b"") as hub, pytest.raises(Unreachable) as raised:
        hub.commit(next_candidate(small_fleet(), None))
    assert "holdfast history" in raised.value.remedy


def test_a_busy_hub_is_to_be_asked_again_later() -> None:
    body = b'{"code":"resource_exhausted","message":"busy","remedy":"wait"}'
    with telling(answer(body, "429 Too Many Requests")) as hub, pytest.raises(TryLater) as raised:
        hub.status()
    assert raised.value.exit_code == 6


# ---- lies


LIES: dict[str, Callable[[messages.AppliedRevision], messages.AppliedRevision]] = {
    "another head": lambda said: replace(said, head=replace(said.head, digest="0" * 64)),
    "another number": lambda said: replace(said, head=replace(said.head, number=9)),
    "another header": lambda said: replace(said, header=said.header.replace(b'"number":2', b'"number":3')),
    "another table": lambda said: replace(said, table=said.table.replace(b"w1", b"w2")),
    "another trust": lambda said: replace(said, trust=said.trust.replace(b"alice", b"mallo")),
    "no header": lambda said: replace(said, header=b""),
    "a header of garbage": lambda said: replace(
        said, header=b"garbage", head=replace(said.head, digest=canonical.digest(b"garbage"))
    ),
    "a header of another language": lambda said: replace(
        said, header=b'{"parent":"\xff"}', head=replace(said.head, digest=canonical.digest(b'{"parent":"\xff"}'))
    ),
}


@pytest.mark.parametrize("case", LIES)
def test_a_lie_about_what_is_applied_is_noticed(case: str) -> None:
    assert TRUE is not None
    told = answer(codec.write(messages.AppliedAnswer(LIES[case](TRUE))))
    with telling(told) as hub, pytest.raises(Corrupt) as raised:
        hub.applied()
    assert raised.value.exit_code == 7


def test_the_truth_is_believed() -> None:
    with telling(answer(codec.write(messages.AppliedAnswer(TRUE)))) as hub:
        applied = hub.applied()
    assert applied is not None
    assert applied.head.number == 2


def test_content_that_is_something_else_is_noticed() -> None:
    with telling(answer(b"something else")) as hub, pytest.raises(Corrupt):
        hub.blob("0" * 64)


def test_a_chain_that_ends_without_a_word_is_noticed() -> None:
    with telling(answer(codec.write(messages.LinksPage(())))) as hub, pytest.raises(Corrupt):
        hub.links(1, 3)


@pytest.mark.parametrize("last", [HEADS_MAX + 1, 2**53 - 1])
def test_a_chain_that_nobody_can_have_made_is_not_asked_for(last: int) -> None:
    with telling(b"", times=0) as hub, pytest.raises(Corrupt) as raised:
        hub.links(last, last)
    assert raised.value.code == "hub_lies" and f"{last:,}" in raised.value.message


# ---- pages, addresses


def test_long_histories_and_chains_come_in_pages() -> None:
    inside = grown_mailbox(230)
    with served(inside) as port:
        hub = HttpHub(f"http://127.0.0.1:{port}")
        assert hub.records(0, 1_000) == inside.records(0, 1_000)
        assert hub.records(225, 210) == inside.records(225, 210)
        assert hub.links(3, 229) == inside.links(3, 229)
        hub.close()


NO_ADDRESS = (
    *("", "hub", "hub:9555", "ftp://hub", "https://", "https://hub:0", "https://hub:99999", "https://hub:x"),
    *("https://user@hub", "https://hub/path", "https://hub?x", "https://hub#x", "https://a b", "https://hub\r\nX: y"),
    *("HTTPS://hub", "https://-hub", "http://127.0.0.1:", "https://[::1"),
)


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_what_is_no_address_of_a_hub_is_invalid(url: str) -> None:
    with pytest.raises(Invalid):
        HttpHub(url)


@pytest.mark.parametrize(
    "url", ["http://hub.example", "http://10.0.0.1:9555", "http://127.0.0.1.example", "http://[::2]"]
)
def test_an_unencrypted_hub_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as raised:
        HttpHub(url)
    assert raised.value.code == "insecure_hub"


@pytest.mark.parametrize(
    "url", ["https://hub.example:9555", "https://[2001:db8::1]", "http://127.0.0.1:9555/", "http://[::1]:1"]
)
def test_an_encrypted_or_local_hub_is_accepted(url: str) -> None:
    assert isinstance(HttpHub(url), HttpHub)
