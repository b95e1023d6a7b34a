"""The clients that look for dropped requests, looking at servers that drop some: what they count is what happened."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets.load import Tally, Visitors, Wrk, counted_by_h2load, counted_by_wrk, h2load
from tests.fleets.waiting import wait_until

Behaviour = Callable[[int], str]  # number of the request → "ok", "503", "drop", "hang"
HOST = "shop.example.test"
EVERY = 20


class Server:
    """HTTP/1.1 on loopback that treats every request as it is told to; counts what it did."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.did: dict[str, int] = {}
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def at_work(self) -> Iterator[Server]:
        self._thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(60)
            self._door.close()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._door))
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                did = self.behaviour(sum(self.did.values()))
                self.did[did] = self.did.get(did, 0) + 1
                if did == "drop":
                    break
                if did == "hang":
                    await asyncio.sleep(60)
                status = b"200 OK" if did == "ok" else b"503 Unavailable"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 3\r\n\r\nhi\n")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def now_and_then(what: str) -> Behaviour:
    return lambda number: what if number % EVERY == EVERY - 1 else "ok"


def visited(server: Server, asked: int = 100) -> Tally:
    load = Visitors(f"http://{HOST}:{server.port}/", "127.0.0.1", rate=400, keeping=4)
    with load.at_work():
        load.await_visits(asked)
    return load.tally


def test_a_server_without_fault_gets_none_reported(tmp_path: Path) -> None:
    with Server(lambda _: "ok").at_work() as server:
        tally = visited(server, 200)
        assert tally.failed == {} and tally.asked == server.did["ok"] >= 200
        assert server.connections > 4, "some dial each time"
        wrk = Wrk(f"http://{HOST}:{server.port}/", "127.0.0.1", tmp_path, rate=400)
        done = server.did["ok"]
        with wrk.at_work():
            wait_until(lambda: server.did["ok"] > done + 150, "wrk asks")
        assert wrk.tally is not None and wrk.tally.failed == {} and wrk.tally.asked > 100
        flat = h2load(f"http://{HOST}:{server.port}/", "127.0.0.1", 200, rate=400, http1=True)
        assert flat.failed == {} and flat.asked == 200


@pytest.mark.parametrize(("did", "said"), [("503", "status 503"), ("drop", "ServerDisconnectedError")])
def test_visitors_count_every_fault(did: str, said: str) -> None:
    with Server(now_and_then(did)).at_work() as server:
        tally = visited(server)
        assert sum(tally.failed.values()) == server.did[did] > 0
        assert all(said in trouble for trouble in tally.failed), tally


def test_visitors_lose_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fleets.load.REQUEST_S_MAX", 0.3)
    with Server(lambda _: "hang").at_work() as server:
        assert visited(server, 4).failed.keys() == {"timeout"}


def test_a_closed_door_is_a_failure() -> None:
    load = Visitors(f"http://{HOST}:1/", "127.0.0.1")
    with load.at_work():
        load.await_visits(10)
    assert len(load.failures) == len(load.visits) and "Connect" in load.failures[0].trouble


@pytest.mark.parametrize(("did", "kind"), [("503", "status"), ("drop", "socket read")])
def test_wrk_is_understood(did: str, kind: str, tmp_path: Path) -> None:
    with Server(now_and_then(did)).at_work() as server:
        wrk = Wrk(f"http://{HOST}:{server.port}/", "127.0.0.1", tmp_path, rate=400)
        with wrk.at_work():
            wait_until(lambda: server.did.get(did, 0) > 3, "wrk meets the fault")
        assert wrk.tally is not None and wrk.tally.failed.keys() == {kind}
        under_way = 1 + wrk.connections // EVERY  # when it ends, each connection may have one
        assert abs(wrk.tally.failed[kind] - server.did[did]) <= under_way


@pytest.mark.parametrize("did", ["503", "drop"])
def test_h2load_is_understood(did: str) -> None:
    with Server(now_and_then(did)).at_work() as server:
        tally = h2load(f"http://{HOST}:{server.port}/", "127.0.0.1", 200, rate=400, http1=True)
        assert tally.failed and tally.asked <= 200


def test_what_the_tools_print_is_read() -> None:
    """Whole outputs, because words like "failed" occur in several lines of them."""
    wrk = "  400 requests in 1.50m, 1.3MB read\n  Socket errors: connect 1, read 0, write 0, timeout 3\n"
    assert counted_by_wrk(f"{wrk}  Non-2xx or 3xx responses: 7\n") == Tally(
        400, 90.0, {"socket connect": 1, "socket timeout": 3, "status": 7}
    )
    h2 = "finished in 2.00s, 50.00 req/s, 5KB/s\nrequests: 100 total, 100 started, 100 done, 97 succeeded, 3 failed, "
    h2 += "2 errored, 1 timeout\nstatus codes: 95 2xx, 2 3xx, 0 4xx, 1 5xx\n"
    assert counted_by_h2load(h2) == Tally(100, 2.0, {"failed": 3, "errored": 2, "timeout": 1, "3xx": 2, "5xx": 1})
