"""S05: a node that floods and strangers that hold connections delay nobody else (limits: M-28, D5, D6)."""

import socket
import ssl
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress

from msgspec.structs import replace

from holdfast.hub.http.limiter import Rate, Rates
from holdfast.model.checkin import CheckIn
from holdfast.wire import codec
from tests.fleets.build import commit, mailbox, small_fleet
from tests.fleets.counts import SOAK
from tests.fleets.serving import NOBODY, Machine, Served, connected, reply, request, served
from tests.fleets.waiting import Stopwatch

FLOOD_S = 60.0 if SOAK else 5.0
SLOW_HEADS = 1_000 if SOAK else 300
SLOW_BODIES = 200 if SOAK else 40
HEARTBEATS_PER_S = 2.0


def flooding(hub: Served, machine: Machine, name: str, until_s: float, seen: Counter[int]) -> None:
    """As fast as one connection can, on and on."""
    while time.monotonic() < until_s:
        with suppress(ConnectionError, ssl.SSLError, TimeoutError), connected(hub) as line:
            while time.monotonic() < until_s:
                body = codec.write(CheckIn(name, heartbeat=True))
                line.sendall(request(hub, "POST", "/v1/check-in", body, machine))
                seen[reply(line).status] += 1


def holding(hub: Served, sent: bytes, count: int, closing: ExitStack) -> None:
    """Connections that send a little now and then."""
    for _ in range(count):
        with suppress(OSError):
            plain = closing.enter_context(socket.create_connection((hub.host, hub.port), 5))
            line = closing.enter_context(hub.tls.wrap_socket(plain, server_hostname=hub.host))
            line.sendall(sent)


def test_a_flood_of_one_node_and_a_thousand_slow_strangers_delay_no_other_node() -> None:
    mail = mailbox()
    head = commit(mail, small_fleet(nodes=("w1", "w2")))
    # w1 heartbeats twice a second, so that there is something to measure; the rate is a third of that, as ever.
    rates = replace(Rates(), heartbeat=Rate(1 / HEARTBEATS_PER_S / 3, 3))
    with served(mail, rates) as hub, ExitStack() as closing:
        w1, w2 = hub.joined("w1"), hub.joined("w2")
        until_s, whole = time.monotonic() + FLOOD_S, Stopwatch()
        seen: Counter[int] = Counter()
        threads = [threading.Thread(target=flooding, args=(hub, w2, "w2", until_s, seen)) for _ in range(2)]
        slow = b"GET / HTTP/1.1\r\nX-a: "
        body = b"POST /v1/check-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        threads += [
            threading.Thread(target=holding, args=(hub, slow, SLOW_HEADS, closing)),
            threading.Thread(target=holding, args=(hub, body, SLOW_BODIES, closing)),
        ]
        for thread in threads:
            thread.start()
        quick: list[bool] = []
        statuses: Counter[int] = Counter()
        line = closing.enter_context(connected(hub, 20))
        while time.monotonic() < until_s:
            watch = Stopwatch()
            line.sendall(
                request(hub, "POST", "/v1/check-in", codec.write(CheckIn("w1", seen=head, heartbeat=True)), w1)
            )
            statuses[reply(line).status] += 1
            quick.append(watch.within(0.5))
            time.sleep(max(0.0, 1 / HEARTBEATS_PER_S - watch.wall_s))
        for thread in threads:
            thread.join(60)
        assert statuses == {200: len(quick)}, "every heartbeat of w1 is taken"
        assert sum(quick) >= int(len(quick) * 0.99), "the 99th percentile is half a second"
        assert seen[429] * whole.stretch > 100, seen
        assert seen[200] <= 3 + (FLOOD_S + 2) * HEARTBEATS_PER_S * 3, "what got through is within its limit"
        assert set(seen) <= {200, 429, 0}
        assert hub.signed("GET", "/v1/head").status == 200


def test_whoever_asks_too_much_is_told_when_to_come_back() -> None:
    mail = mailbox()
    head = commit(mail, small_fleet())
    with served(mail, Rates()) as hub:
        w1 = hub.joined("w1")
        beats = [hub.check_in(w1, "w1", seen=head, heartbeat=True) for _ in range(5)]
        assert [beat.status for beat in beats] == [200, 200, 200, 429, 429]
        assert beats[4].json()["code"] == "resource_exhausted"
        assert 1 <= int(beats[4].headers["retry-after"]) <= 10
        polls = [hub.check_in(w1, "w1", seen=head).status for _ in range(8)]
        assert polls == [200] * 8, "orders come all the same (C-02)"


def test_an_accepted_register_waits_its_minute_and_a_refused_one_does_not() -> None:
    """M-28, D-08."""
    mail = mailbox()
    commit(mail, small_fleet())
    with served(mail, Rates()) as hub:
        for _ in range(5):
            stranger = hub.signed("POST", "/v1/join", codec.write(replace(hub.joining("w1"), name="w9")), Machine("w1"))
            assert stranger.status == 403
        answers = [hub.signed("POST", "/v1/join", codec.write(hub.joining("w1")), Machine("w1")) for _ in range(5)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429, 429], "a burst, then one a minute"
        assert answers[4].json()["code"] == "resource_exhausted"
        assert 50 <= int(answers[4].headers["retry-after"]) <= 60


def test_strangers_are_limited_by_address_and_known_callers_from_there_are_not() -> None:
    mail = mailbox()
    commit(mail, small_fleet())
    with served(mail, replace(Rates(), stranger=Rate(600.0, 20))) as hub:  # so slow that no share comes back
        w1 = hub.joined("w1")
        assert hub.signed("GET", "/v1/head").status == 200
        keys = [Machine(f"key {number}") for number in range(40)]
        statuses = [hub.signed("GET", "/healthz", as_=key).status for key in keys]
        assert statuses == [200] * 19 + [429] * 21, "the first share went to w1, which was a stranger until it joined"
        assert hub.signed("GET", "/v1/nodes", as_=Machine("a new key")).status == 429
        assert hub.signed("GET", "/healthz", as_=NOBODY).status == 429
        for _ in range(10):
            assert hub.check_in(w1, "w1").status == 200
            assert hub.signed("GET", "/v1/head").status == 200
