"""What a stranger may cost the hub: bytes, places, seconds. Others are served meanwhile (S03, S05; A2, D4)."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdfast.errors import TryLater
from holdfast.hub import limits
from tests.fleets.build import grown_mailbox
from tests.fleets.serving import CLOSED, Reply, connected, get, post, raw, reply, served

HOST = b"Host: localhost\r\n"
POST = HOST + b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(grown_mailbox(2)) as number:
        yield number


def closing_time_s(line: socket.socket, drip: bytes = b"") -> tuple[float, Reply]:
    """How long the hub bears with this connection, to which a byte is sent every half second if there is a drip."""
    started_s = time.monotonic()
    line.settimeout(0.5)
    while time.monotonic() - started_s < 40:
        try:
            if drip:
                line.sendall(drip)
            if not line.recv(1, socket.MSG_PEEK):
                return time.monotonic() - started_s, CLOSED
            line.settimeout(5)
            return time.monotonic() - started_s, reply(line)
        except TimeoutError:
            continue
        except ConnectionError:
            return time.monotonic() - started_s, CLOSED
    raise AssertionError("still open")


def test_whoever_keeps_the_hub_waiting_is_dismissed_in_time_and_delays_nobody(port: int) -> None:
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
        "idle": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"", 4, 7),
        "slow second head": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"\r\n", 14, 17),
    }
    took: dict[str, tuple[float, Reply]] = {}

    def suffer(kind: str) -> None:
        first, drip, _, _ = kinds[kind]
        with connected(port) as line:
            line.sendall(first)
            if first.endswith(b"\r\n\r\n") and b"healthz" in first:
                assert reply(line).status == 200
            took[kind] = closing_time_s(line, drip)

    threads = [threading.Thread(target=suffer, args=(kind,)) for kind in kinds for _ in range(5)]
    for thread in threads:
        thread.start()
    waits_s = []
    while any(thread.is_alive() for thread in threads):
        started_s = time.monotonic()
        assert get(port, "/v1/head").status == 200
        waits_s.append(time.monotonic() - started_s)
        time.sleep(0.2)
    assert max(waits_s) < 1
    for kind, (_, _, earliest_s, latest_s) in kinds.items():
        assert earliest_s <= took[kind][0] <= latest_s, (kind, took[kind])
    assert {kind: answer.status for kind, (_, answer) in took.items() if answer is not CLOSED} == {
        "stalled body": 408,
        "slow body": 408,
        "slow chunks": 408,
    }


def test_a_body_that_keeps_coming_gets_more_time_but_not_for_ever() -> None:
    assert limits.body_deadline_s(0) == 15
    assert limits.body_deadline_s(limits.PACE_BYTES * 10) == 25
    assert limits.body_deadline_s(limits.LARGE_BODY_BYTES_MAX) == 60


def test_one_connection_too_many_is_closed_and_the_others_are_served(port: int) -> None:
    with ExitStack() as open_lines:
        lines = [open_lines.enter_context(connected(port)) for _ in range(300)]
        time.sleep(0.5)
        answers = []
        for line in lines:
            try:
                line.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
            except ConnectionError:
                answers.append(CLOSED)
                continue
            answers.append(reply(line))
        served_count = sum(answer.status == 200 for answer in answers)
        assert served_count == limits.CONNECTIONS_MAX
        assert answers.count(CLOSED) == 300 - limits.CONNECTIONS_MAX
    deadline_s = time.monotonic() + 5
    while get(port, "/v1/head").status != 200:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


# ---- size


def test_a_body_that_announces_too_much_is_refused_before_it_is_sent(port: int) -> None:
    length = b"Content-Length: %d\r\n" % (limits.LARGE_BODY_BYTES_MAX + 1)
    answer = raw(port, b"POST /v1/revisions HTTP/1.1\r\n" + POST + length + b"\r\n")
    assert (answer.status, answer.json()["code"]) == (413, "body_too_large")


def test_a_chunked_body_that_grows_too_much_is_refused_on_the_way(port: int) -> None:
    with connected(port, 30) as line:
        line.sendall(b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        try:
            for _ in range(60):
                line.sendall(chunk)
        except ConnectionError:
            pass
        assert reply(line).status in (413, CLOSED.status)
    assert get(port, "/v1/head").status == 200


def test_only_one_large_body_is_read_at_a_time_and_two_may_wait(port: int) -> None:
    head = b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Content-Length: 2000000\r\n\r\n"
    content = b'{"blobs":{}}'.ljust(2_000_000)
    with ExitStack() as open_lines:
        lines = [open_lines.enter_context(connected(port, 20)) for _ in range(3)]
        for line in lines:
            line.sendall(head)
            time.sleep(0.1)
        refused = raw(port, head)
        assert (refused.status, refused.json()["code"]) == (429, "resource_exhausted")
        assert int(refused.headers["retry-after"]) >= 1
        assert post(port, "/v1/blobs", b'{"blobs":{}}').status == 200, "small bodies need no place in that line"
        for line in lines:
            line.sendall(content)
            assert reply(line).status == 200
    assert post(port, "/v1/blobs", content).status == 200


def test_a_body_waits_for_permission_if_it_asks_for_it(port: int) -> None:
    with connected(port) as line:
        line.sendall(b"POST /v1/blobs HTTP/1.1\r\n" + POST + b"Expect: 100-continue\r\nContent-Length: 12\r\n\r\n")
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
