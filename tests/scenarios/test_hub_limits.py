"""What a stranger may cost the hub: bytes, places, seconds. Others are served meanwhile (S03, S05; A2, D4)."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdfast.errors import TryLater
from holdfast.hub.http import limits
from holdfast.hub.http.slots import KNOWN_PER_IDENTITY, STRANGERS_PER_ADDRESS
from tests.fleets.build import grown_mailbox
from tests.fleets.serving import (
    ALICE,
    CLOSED,
    NOBODY,
    Caller,
    Reply,
    Served,
    connected,
    get,
    post,
    raw,
    reply,
    request,
    served,
    stamped,
)
from tests.fleets.waiting import Stopwatch

HOST = b"Host: localhost\r\n"
POST = HOST + b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def hub() -> Iterator[Served]:
    with served(grown_mailbox(2)) as found:
        yield found


def closing_time_s(line: socket.socket, drip: bytes = b"") -> tuple[float, Reply]:
    """How long the hub bears with this connection, to which a byte is sent every half second if there is a drip."""
    started_s = time.monotonic()
    line.settimeout(0.5)
    while time.monotonic() - started_s < 40:
        try:
            if drip:
                line.sendall(drip)
            return (time.monotonic() - started_s), reply(line)
        except TimeoutError:
            continue
        except (ConnectionError, ssl.SSLError):
            return time.monotonic() - started_s, CLOSED
    raise AssertionError("still open")


def test_whoever_keeps_the_hub_waiting_is_dismissed_in_time_and_delays_nobody(hub: Served) -> None:
    """One real wait for all kinds of slowness together."""
    body = b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: 5000\r\n\r\n{"
    chunked = b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Transfer-Encoding: chunked\r\n\r\n"
    kinds: dict[str, tuple[bytes, bytes, float, float]] = {  # sent first, drip, earliest, latest
        "silent": (b"", b"", 14, 17),
        "slow head": (b"GET / HTTP/1.1\r\nX-a: ", b"a", 14, 17),
        "slow line": (b"GET /", b"a", 14, 17),
        "stalled body": (body, b"", 14, 17),
        "slow body": (body, b" ", 14, 17),
        "slow chunks": (chunked, b"1\r\n \r\n", 14, 17),
        "no handshake": (b"\x16\x03\x01", b"", 9, 12),
        "idle": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"", 4, 7),
        "slow second head": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"\r\n", 14, 17),
    }
    took: dict[str, tuple[float, Reply]] = {}

    def suffer(kind: str) -> None:
        first, drip, _, _ = kinds[kind]
        if kind == "no handshake":
            with socket.create_connection((hub.host, hub.port), 10) as plain:
                plain.sendall(first)
                took[kind] = closing_time_s(plain)
            return
        with connected(hub) as line:
            line.sendall(stamped(hub, first) if b"POST" in first else first)
            if first.endswith(b"\r\n\r\n") and b"healthz" in first:
                assert reply(line).status == 200
            took[kind] = closing_time_s(line, drip)

    threads = [threading.Thread(target=suffer, args=(kind,)) for kind in kinds for _ in range(5)]
    for thread in threads:
        thread.start()
    whole = Stopwatch()
    waits: list[bool] = []
    while any(thread.is_alive() for thread in threads):
        watch = Stopwatch()
        assert get(hub, "/v1/head").status == 200
        waits.append(watch.within(1))
        time.sleep(0.2)
    busy_s = whole.wall_s - whole.unhurried_s
    assert all(waits)
    for kind, (_, _, earliest_s, latest_s) in kinds.items():
        assert earliest_s <= took[kind][0] <= latest_s + busy_s, (kind, took[kind])
    assert {kind: answer.status for kind, (_, answer) in took.items() if answer is not CLOSED} == {
        "stalled body": 408,
        "slow body": 408,
        "slow chunks": 408,
    }


def test_a_body_that_keeps_coming_gets_more_time_but_not_for_ever() -> None:
    assert limits.body_deadline_s(0) == 15
    assert limits.body_deadline_s(limits.PACE_BYTES * 10) == 25
    assert limits.body_deadline_s(limits.LARGE_BODY_BYTES_MAX) == 60


def asked(hub: Served, line: ssl.SSLSocket, target: str = "/healthz", who: Caller = NOBODY) -> Reply:
    try:
        line.sendall(request(hub, "GET", target, as_=who))
    except (ConnectionError, ssl.SSLError):
        return CLOSED
    return reply(line)


def test_a_newcomer_gets_the_place_of_whoever_kept_the_hub_waiting_longest(hub: Served) -> None:
    """D6: nobody is locked out by strangers that hold connections, and nobody who is known loses his to them."""
    with ExitStack() as lines:
        known = [lines.enter_context(connected(hub)) for _ in range(5)]
        assert [asked(hub, line, "/v1/head", ALICE).status for line in known] == [200] * 5
        strangers = [lines.enter_context(connected(hub)) for _ in range(100)]
        answers = [asked(hub, line) for line in strangers]
        assert [answer.status for answer in answers] == [0] * 36 + [200] * STRANGERS_PER_ADDRESS
        assert [asked(hub, line, "/v1/head", ALICE).status for line in known] == [200] * 5
        assert get(hub, "/v1/head").status == 200


def test_one_identity_has_so_many_connections_and_loses_an_idle_one_for_a_new_one(hub: Served) -> None:
    with ExitStack() as lines:
        mine = [lines.enter_context(connected(hub)) for _ in range(KNOWN_PER_IDENTITY + 4)]
        assert [asked(hub, line, "/v1/head", ALICE).status for line in mine] == [200] * len(mine)
        again = [asked(hub, line, "/v1/head", ALICE).status for line in mine]
        assert again == [0] * 4 + [200] * KNOWN_PER_IDENTITY


def test_handshakes_that_do_not_end_take_places_too_and_are_cut_for_newcomers(hub: Served) -> None:
    with ExitStack() as lines:
        halves = [lines.enter_context(socket.create_connection((hub.host, hub.port), 10)) for _ in range(90)]
        for line in halves[:45]:
            line.sendall(b"\x16\x03\x01")
        assert get(hub, "/v1/head").status == 200
        for line in halves[: 90 - STRANGERS_PER_ADDRESS]:
            try:
                assert line.recv(100) == b""
            except ConnectionError:
                continue


# ---- size


def test_a_body_that_announces_too_much_is_refused_before_it_is_sent(hub: Served) -> None:
    length = b"Content-Length: %d\r\n" % (limits.LARGE_BODY_BYTES_MAX + 1)
    answer = raw(hub, stamped(hub, b"POST /v1/revisions HTTP/1.1\r\n" + POST + length + b"\r\n"))
    assert (answer.status, answer.json()["code"]) == (413, "body_too_large")


def test_a_chunked_body_that_grows_too_much_is_refused_on_the_way(hub: Served) -> None:
    with connected(hub, 30) as line:
        head = b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Transfer-Encoding: chunked\r\n\r\n"
        line.sendall(stamped(hub, head))
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        try:
            for _ in range(60):
                line.sendall(chunk)
        except (ConnectionError, ssl.SSLError):
            pass
        assert reply(line).status in (413, CLOSED.status)
    assert get(hub, "/v1/head").status == 200


def test_only_one_large_body_is_read_at_a_time_and_two_may_wait(hub: Served) -> None:
    head = b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: 2000000\r\n\r\n"
    content = b'{"blobs":{}}'.ljust(2_000_000)
    with ExitStack() as open_lines:
        lines = [open_lines.enter_context(connected(hub, 20)) for _ in range(3)]
        for line in lines:
            line.sendall(stamped(hub, head, body=content))
            time.sleep(0.1)
        refused = raw(hub, stamped(hub, head, body=content))
        assert (refused.status, refused.json()["code"]) == (429, "resource_exhausted")
        assert int(refused.headers["retry-after"]) >= 1
        assert post(hub, "/v1/blobs", b'{"blobs":{}}').status == 200, "small bodies need no place in that line"
        for line in lines:
            line.sendall(content)
            assert reply(line).status == 200
    assert post(hub, "/v1/blobs", content).status == 200


def test_a_body_waits_for_permission_if_it_asks_for_it(hub: Served) -> None:
    with connected(hub) as line:
        head = b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Expect: 100-continue\r\nContent-Length: 12\r\n\r\n"
        line.sendall(stamped(hub, head, body=b'{"blobs":{}}'))
        assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.sendall(b'{"blobs":{}}')
        assert reply(line).json()["mended"] == 0


def test_a_turnstile_lets_in_so_many_and_turns_away_whom_it_cannot_seat() -> None:
    async def crowd() -> list[str]:
        door, said, go = limits.Turnstile(1, 1, 5, "full"), [], asyncio.Event()

        async def enter(name: str) -> None:
            try:
                async with door.passing():
                    said.append(f"{name} in")
                    await go.wait()
            except TryLater as trouble:
                said.append(f"{name} {trouble.code}")

        guests = [asyncio.create_task(enter(name)) for name in ("a", "b", "c")]
        await asyncio.sleep(0.01)
        guests[1].cancel()  # gives its seat back
        await asyncio.sleep(0.01)
        guests.append(asyncio.create_task(enter("d")))
        await asyncio.sleep(0.01)
        go.set()
        await asyncio.gather(*guests, return_exceptions=True)
        return said

    assert sorted(asyncio.run(crowd())) == ["a in", "c resource_exhausted", "d in"]


def test_a_budget_is_given_back_also_after_a_refusal() -> None:
    budget = limits.Budget(10, "full")
    with pytest.raises(TryLater), budget.share() as mine:
        mine.take(8)
        mine.take(3)
    with budget.share() as whole:
        whole.take(10)
