"""A hub behind a URL may be absent, slow, garbled or lying; each ends in a typed failure, none in a wrong answer."""

import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.certificates import x509
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.hub_link.http import exchange, hub_certificate
from holdfast.adapters.hub_link.http.asking import ANSWER_BYTES_MAX
from holdfast.adapters.hub_link.http.exchange import HEAD_BYTES_MAX
from holdfast.adapters.hub_link.http.hub import HEADS_MAX, HttpHub
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import (
    Corrupt,
    HoldfastError,
    Invalid,
    NotPermitted,
    TryLater,
    Unauthenticated,
    Unreachable,
)
from holdfast.hub.http.handlers.revisions import Revisions
from holdfast.model import canonical, ssh_key
from holdfast.model.fleet import Thresholds
from holdfast.model.trust import of
from holdfast.ports.clock import Clock
from holdfast.trust.sessions import verify_session
from holdfast.wire import codec, http_signature, messages, session_header
from tests.fleets import exchange as handed
from tests.fleets.build import ALICE, ALICE_SIGNER, grown_mailbox, next_candidate, small_fleet
from tests.fleets.serving import Person, parts_of, served
from tests.fleets.tls_peers import HOST, OURS, THEIRS, Eavesdropper, impostors
from tests.fleets.waiting import Stopwatch

PARTS, _ = parts_of(grown_mailbox(2))
TRUE = codec.read(Revisions(PARTS.hub, PARTS.fleet.views).applied(handed.asked()), messages.AppliedAnswer).revision
assert TRUE is not None
SYSTEM = SystemClock()


def calling(port: int, pin: str = OURS.line, clock: Clock = SYSTEM, fleet: str = "", timeout_s: float = 1.5) -> HttpHub:
    person = Person("alice", ALICE_SIGNER)
    return HttpHub(f"https://{HOST}:{port}", person, clock, SystemRandom(), pin=pin, fleet=fleet, timeout_s=timeout_s)


@contextmanager
def scripted(speak: Callable[[ssl.SSLSocket, int], None], times: int) -> Iterator[int]:
    """A hub's TLS with something else behind it: `speak` is given each connection and its number."""
    door = socket.create_server((HOST, 0))
    door.settimeout(5)
    context = OURS.context()

    def serve() -> None:
        for number in range(times):
            with suppress(OSError):
                line, _ = door.accept()
                line.settimeout(5)
                with context.wrap_socket(line, server_side=True) as inside:
                    speak(inside, number)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield door.getsockname()[1]
    finally:
        door.close()
        thread.join(60)
    assert not thread.is_alive()


@contextmanager
def telling(*pieces: bytes, pause_s: float = 0.0, times: int = 1) -> Iterator[HttpHub]:
    """A server that reads a request and says these bytes, whatever was asked."""

    def speak(line: ssl.SSLSocket, _: int) -> None:
        line.recv(1 << 20)
        for piece in pieces:
            line.sendall(piece)
            time.sleep(pause_s)

    with scripted(speak, times) as port:
        hub = calling(port)
        try:
            yield hub
        finally:
            hub.close()


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
    with socket.create_server((HOST, 0)) as door:
        port = door.getsockname()[1]
    hub = calling(port)
    for question in (hub.status, lambda: hub.mend({})):
        with pytest.raises(Unreachable, match=r"cannot reach the hub at https://.*: Connection refused") as raised:
            question()
        assert "history" not in raised.value.remedy, "nothing was sent, so nothing can have arrived"


def test_a_hub_whose_name_is_unknown_is_unreachable() -> None:
    hub = HttpHub("https://hub.invalid:1", Person("alice", ALICE_SIGNER), SYSTEM, SystemRandom(), pin=OURS.line)
    with pytest.raises(Unreachable, match=r"cannot reach the hub at https://hub\.invalid:1: ") as raised:
        hub.status()
    assert raised.value.code == "unreachable"


@pytest.mark.parametrize("pieces", [(b"",) * 20, tuple(b"HTTP/1.1 200 OK\r\nX: y".ljust(99).hex(" ").encode().split())])
def test_a_hub_that_drips_is_given_up_in_time(pieces: tuple[bytes, ...]) -> None:
    watch = Stopwatch()
    with telling(*pieces, pause_s=0.1) as hub:
        with pytest.raises(Unreachable, match="too long"):
            hub.status()
        assert watch.within(3)


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
    with served(inside) as far:
        hub = far.link()
        assert hub.records(0, 1_000) == inside.records(0, 1_000)
        assert hub.records(225, 210) == inside.records(225, 210)
        assert hub.links(3, 229) == inside.links(3, 229)
        hub.close()


NO_ADDRESS = (
    *("", "hub", "hub:9555", "ftp://hub", "https://", "https://hub:0", "https://hub:99999", "https://hub:x"),
    *("https://user@hub", "https://hub/path", "https://hub?x", "https://hub#x", "https://a b", "https://hub\r\nX: y"),
    *("HTTPS://hub", "https://-hub", "https://127.0.0.1:", "https://[::1"),
)


def at(url: str) -> HttpHub:
    return HttpHub(url, Person("alice", ALICE_SIGNER), SYSTEM, SystemRandom())


@pytest.mark.parametrize("url", NO_ADDRESS)
def test_what_is_no_address_of_a_hub_is_invalid(url: str) -> None:
    with pytest.raises(Invalid):
        at(url)


@pytest.mark.parametrize("url", ["http://hub.example", "http://10.0.0.1:9555", "http://127.0.0.1:9555", "http://[::1]"])
def test_an_unencrypted_hub_is_refused_wherever_it_is(url: str) -> None:
    with pytest.raises(Invalid) as raised:
        at(url)
    assert raised.value.code == "insecure_hub"
    assert raised.value.remedy == f"use https{url[4:]}"


@pytest.mark.parametrize("url", ["https://hub.example:9555", "https://[2001:db8::1]", "https://127.0.0.1:9555/"])
def test_an_encrypted_hub_is_accepted(url: str) -> None:
    assert isinstance(at(url), HttpHub)


# ---- who answers


@pytest.mark.parametrize("case", impostors())
def test_nothing_is_said_to_an_impostor(case: str) -> None:
    """M-14, M-19, S01: the handshake ends before the first byte of the request."""
    with Eavesdropper(impostors()[case]) as ear:
        with pytest.raises(HoldfastError) as raised:
            calling(ear.port).status()
        ear.settle()
        assert bytes(ear.heard) == b""
    assert raised.value.code in ("wrong_hub", "unreachable")
    assert raised.value.remedy


def test_the_pinned_hub_is_spoken_to() -> None:
    with Eavesdropper(OURS.context()) as ear:
        for times, patience_s in enumerate((0.3, 3.0, 30.0), start=1):  # a busy machine needs more time to say it
            with pytest.raises(Unreachable):
                calling(ear.port, timeout_s=patience_s).status()
            ear.settle(times)
            if ear.heard:
                break
        assert bytes(ear.heard).startswith(b"GET /v1/status HTTP/1.1\r\n")


def test_without_a_pin_a_self_signed_hub_is_not_believed() -> None:
    with Eavesdropper(OURS.context()) as ear:
        with pytest.raises(Unreachable) as raised:
            calling(ear.port, pin="").status()
        ear.settle()
        assert bytes(ear.heard) == b""
    assert "add hub_key" in raised.value.remedy and "export it as HOLDFAST_HUB_KEY" in raised.value.remedy


def test_with_the_wrong_pin_it_is_said_what_to_compare() -> None:
    with Eavesdropper(OURS.context()) as ear, pytest.raises(Unreachable) as raised:
        calling(ear.port, pin=THEIRS.line).status()
    assert "holdfast hub check" in raised.value.remedy and "add hub_key" not in raised.value.remedy


def test_a_machine_that_is_off_is_given_up_long_before_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes back, as from behind a full queue: not even that nobody listens."""
    monkeypatch.setattr(exchange, "CONNECT_S", 0.2)
    full = [socket.socket() for _ in range(3)]
    with socket.create_server((HOST, 0), backlog=0) as door:
        for one in full:
            one.setblocking(False)
            one.connect_ex(door.getsockname())
        hub = calling(door.getsockname()[1], timeout_s=20)
        for question in (hub.status, lambda: hub.mend({})):
            watch = Stopwatch()
            with pytest.raises(Unreachable, match=r"nothing answers at .* within 0.2 s; the machine is off") as raised:
                question()
            assert watch.within(5)
            assert "history" not in raised.value.remedy, "nothing was sent, so nothing can have arrived"
    for one in full:
        one.close()


def test_what_is_not_tls_is_unreachable() -> None:
    with socket.create_server((HOST, 0)) as door:

        def tell() -> None:
            with suppress(OSError):
                line, _ = door.accept()
                with line:
                    line.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 10)

        thread = threading.Thread(target=tell)
        thread.start()
        with pytest.raises(Unreachable):
            calling(door.getsockname()[1]).status()
        thread.join(60)


def test_a_handshake_that_drips_is_given_up_in_time() -> None:
    with socket.create_server((HOST, 0)) as door:
        told = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                line, _ = door.accept()
                with line:
                    for byte in b"\x16\x03\x03\x40\x00" + b"\0" * 100:
                        line.sendall(bytes([byte]))
                        if told.wait(0.1):
                            return

        thread = threading.Thread(target=drip)
        thread.start()
        watch = Stopwatch()
        with pytest.raises(Unreachable):
            calling(door.getsockname()[1]).status()
        assert watch.within(3)
        told.set()
        thread.join(60)


NAMES = (["hub.example.com", "127.0.0.1", "::1"], ["a" * 60 + "." + "b" * 60 + ".example"], ["h"])


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("now_s", [951_786_000, 1_700_000_000, 2_600_000_000, 4_107_542_400])
def test_the_fast_reader_reads_as_the_library_does(names: list[str], now_s: float) -> None:
    der = x509.der_of(x509.make_hub_certificate(OURS.private, names, now_s))
    assert hub_certificate.facts(der) == x509.facts(der)


def test_the_fast_reader_never_believes_what_the_library_would_not() -> None:
    """Every changed byte: unread (the library decides), or the same facts, or a signature that does not hold."""
    der = x509.der_of(x509.make_hub_certificate(OURS.private, ["hub.example.com", HOST], time.time()))
    good = hub_certificate.facts(der)
    believed = 0
    for place in range(len(der)):
        for bit in (1, 0x80):
            spoilt = der[:place] + bytes([der[place] ^ bit]) + der[place + 1 :]
            try:
                found = hub_certificate.facts(spoilt)
            except ValueError:
                continue
            believed += found.self_signed and found.key == good.key
    assert believed == 0
    for cut in range(len(der)):
        with pytest.raises(ValueError):
            hub_certificate.facts(der[:cut])
    with pytest.raises(ValueError):
        hub_certificate.facts(der + b"\0")


def test_a_certificate_of_another_form_is_left_to_the_library(tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k", "-out", "c", "-subj", "/CN=h"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    der = x509.der_of((tmp_path / "c").read_bytes())
    with pytest.raises(ValueError):
        hub_certificate.facts(der)
    assert x509.facts(der).key == ""


# ---- who asks


class Asked:
    """What a scripted hub heard, and whether it would have believed it."""

    def __init__(self, text: bytes) -> None:
        head, _, self.body = text.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = dict(line.split(": ", 1) for line in lines)
        self.parsed = http_signature.read(self.method, self.target, self.headers)
        http_signature.check_signature(self.parsed)
        http_signature.check_body(self.parsed, self.body)
        http_signature.check_time(self.parsed, time.time())


def whole(line: ssl.SSLSocket) -> bytes:
    read = b""
    while b"\r\n\r\n" not in read:
        read += line.recv(1 << 20) or pytest.fail("it hung up")
    found = re.search(rb"Content-Length: (\d+)", read)
    while found and len(read.partition(b"\r\n\r\n")[2]) < int(found[1]):
        read += line.recv(1 << 20)
    return read


@contextmanager
def hearing(*answers: bytes) -> Iterator[tuple[int, list[Asked]]]:
    """One connection per answer; what was asked is verified as a hub would."""
    heard: list[Asked] = []

    def speak(line: ssl.SSLSocket, number: int) -> None:
        heard.append(Asked(whole(line)))
        line.sendall(answers[number])

    with scripted(speak, len(answers)) as port:
        yield port, heard


EMPTY = answer(codec.write(messages.DamagedAnswer(())))
LAST = answer(codec.write(messages.DamagedAnswer(())), headers="Connection: close\r\n")
FLEET, OTHER_FLEET = "a" * 64, "b" * 64


def test_every_request_is_signed_by_a_session_of_the_operator() -> None:
    with hearing(LAST, answer(HEAD)) as (port, heard):
        hub = calling(port, fleet=FLEET)
        hub.damaged()
        hub.mend({"0" * 64: b"x"})
        hub.close()
    for asked in heard:
        assert asked.parsed.to == ssh_key.fingerprint(ssh_key.parse(OURS.line))
        assert asked.parsed.fleet == FLEET
        certificate = session_header.read(asked.headers["Holdfast-Session"])
        trust = of((ALICE,), Thresholds())
        assert verify_session(certificate, asked.parsed.line, FLEET, trust, time.time()).name == "alice"
    assert heard[0].parsed.nonce != heard[1].parsed.nonce
    assert (heard[0].parsed.digest, heard[1].parsed.digest is None) == (None, False)


def test_a_question_repeated_on_a_fresh_connection_has_a_fresh_nonce() -> None:
    """Its first copy may have been heard: with the same nonce the second would be taken for a replay."""
    heard: list[Asked] = []

    def speak(line: ssl.SSLSocket, number: int) -> None:
        heard.append(Asked(whole(line)))
        line.sendall(EMPTY)
        if number == 0:
            heard.append(Asked(whole(line)))  # and hangs up without a word

    with scripted(speak, 2) as port:
        hub = calling(port)
        assert [hub.damaged(), hub.damaged()] == [[], []]
        hub.close()
    assert len({asked.parsed.nonce for asked in heard}) == len(heard) == 3


def test_a_write_is_never_repeated_by_itself() -> None:
    with hearing(b"") as (port, heard), pytest.raises(Unreachable):
        calling(port).mend({})
    assert len(heard) == 1


def refusing(code: str, headers: str = "") -> bytes:
    body = f'{{"code":"{code}","message":"no","remedy":"none"}}'.encode()
    return answer(body, "401 Unauthorized", f"Holdfast-Exit: 3\r\n{headers}Connection: close\r\n")


@pytest.mark.parametrize("code", ["session_expired", "session_refused"])
def test_a_session_the_hub_does_not_take_is_made_anew_once(code: str) -> None:
    with hearing(refusing(code), EMPTY) as (port, heard):
        assert calling(port).damaged() == []
    assert len(heard) == 2
    with hearing(refusing(code), refusing(code)) as (port, heard), pytest.raises(NotPermitted) as raised:
        calling(port).damaged()
    assert (raised.value.code, raised.value.exit_code, len(heard)) == (code, 3, 2)


def test_a_hub_that_always_refuses_teaches_once_per_command() -> None:
    no = refusing("session_expired")
    with hearing(no, no, no) as (port, heard):
        hub = calling(port)
        for _ in range(2):
            with pytest.raises(NotPermitted):
                hub.damaged()
    assert len(heard) == 3


def test_the_fleet_is_learnt_from_the_hub_once() -> None:
    hint = refusing("other_fleet", f"Holdfast-Fleet: {OTHER_FLEET}\r\n")
    with hearing(hint, EMPTY) as (port, heard):
        assert calling(port, fleet=FLEET).damaged() == []
    assert [asked.parsed.fleet for asked in heard] == [FLEET, OTHER_FLEET]
    with hearing(refusing("other_fleet", "Holdfast-Fleet: none\r\n"), EMPTY) as (port, heard):
        assert calling(port, fleet=FLEET).damaged() == []
    assert [asked.parsed.fleet for asked in heard] == [FLEET, "none"]


@pytest.mark.parametrize("hint", ["", f"Holdfast-Fleet: {FLEET}\r\n", "Holdfast-Fleet: nonsense\r\n"])
def test_a_hub_that_teaches_nothing_is_not_asked_again(hint: str) -> None:
    with hearing(refusing("other_fleet", hint)) as (port, heard), pytest.raises(NotPermitted):
        calling(port, fleet=FLEET).damaged()
    assert len(heard) == 1


def test_the_first_commit_founds_the_fleet_for_the_rest_of_the_command() -> None:
    candidate = next_candidate(small_fleet(), None)
    said = answer(
        codec.write(messages.HeadAnswer(TRUE.head if TRUE else pytest.fail())), headers="Connection: close\r\n"
    )
    with hearing(said, EMPTY) as (port, heard):
        hub = calling(port)
        hub.commit(candidate)
        hub.damaged()
    fleet = codec.read(candidate.header, dict)["fleet"]
    assert [asked.parsed.fleet for asked in heard] == ["none", fleet]


# ---- clocks


HUB_KEY = MemoryIdentityKey(OURS.private.private_bytes_raw())
LIAR = MemoryIdentityKey(THEIRS.private.private_bytes_raw())


def skewed(key: MemoryIdentityKey, at_s: int, nonce: str = "") -> Callable[[ssl.SSLSocket, int], None]:
    def speak(line: ssl.SSLSocket, _: int) -> None:
        text = whole(line).decode()
        heard = re.search(r'nonce="([^"]+)"', text)
        assert heard
        said = http_signature.sign_response(key, 401, at_s, nonce or heard[1])
        line.sendall(refusing("clock_skew", "".join(f"{name}: {value}\r\n" for name, value in said.items())))

    return speak


def test_a_wrong_clock_is_told_with_both_times() -> None:
    now_s = int(time.time())
    with scripted(skewed(HUB_KEY, now_s), 1) as port, pytest.raises(Unauthenticated) as raised:
        calling(port, clock=VirtualClock(float(now_s + 3600))).status()
    said = raised.value
    assert (said.code, said.exit_code) == ("clock_skew", 3)
    assert "3,600 s" in said.message and time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s)) in said.message
    assert "timedatectl" in said.remedy


@pytest.mark.parametrize(
    ("key", "nonce"), [(LIAR, ""), (HUB_KEY, "AAAAAAAAAAAAAAAAAAAAAA==")], ids=["another's word", "an old word"]
)
def test_a_time_that_is_not_proven_is_a_lie(key: MemoryIdentityKey, nonce: str) -> None:
    with scripted(skewed(key, int(time.time()) + 3600, nonce), 1) as port, pytest.raises(Corrupt) as raised:
        calling(port).status()
    assert raised.value.code == "hub_lies"


def test_a_skewed_person_meets_a_real_hub() -> None:
    """±60 s, end to end: refused at 61 with the hub's own time, taken at 55."""
    with served(grown_mailbox(1)) as far:
        for off_s, taken in ((-61, False), (62, False), (55, True)):
            clock = VirtualClock(time.time() + off_s)
            hub = HttpHub(
                far.url,
                Person("alice", ALICE_SIGNER, began_s=-300),
                clock,
                SystemRandom(),
                pin=far.hub_key,
                fleet=far.fleet_id,
                timeout_s=10,
            )
            if taken:
                assert hub.status().head.number == 1
            else:
                with pytest.raises(Unauthenticated) as raised:
                    hub.status()
                assert raised.value.code == "clock_skew"
            hub.close()


# ---- tokens, nodes


def test_tokens_are_made_listed_and_ended_through_a_real_hub() -> None:
    with served(grown_mailbox(1)) as far:
        hub = far.link()
        made = hub.create_token("grafana", 3600)
        assert [token.id for token in hub.tokens()] == [made.token.id]
        asked = f"GET /v1/head HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {made.text}\r\n\r\n".encode()
        assert _status(far.port, far.hub_key, asked) == 200
        assert hub.revoke_token(made.token.id).revoked_s
        assert _status(far.port, far.hub_key, asked) == 401
        assert hub.nodes().nodes is not None
        hub.close()


def _status(port: int, hub_key: str, sent: bytes) -> int:
    from holdfast.adapters.tls import client

    with (
        socket.create_connection((HOST, port), 10) as line,
        client.secured(line, HOST, hub_key, time.time) as inside,
    ):
        inside.sendall(sent)
        return int(inside.recv(65536).split()[1])
