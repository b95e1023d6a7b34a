"""The hub as a process of its own: small, quick to listen, polite to its service manager, gone when told to go."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.adapters.tls import client
from holdfast.hub.ledger import reading
from holdfast.model import ssh_key
from tests.fleets.build import grown_mailbox, next_candidate, small_fleet
from tests.fleets.serving import HOST, Served, connected, get, raw, reply, request
from tests.fleets.waiting import Stopwatch

SOURCE = Path(__file__).parents[2] / "src"
RSS_MAX_KIB = 70 * 1024

RUN = """
import os, sys
from holdfast.cli.terminal import system_terminal
from holdfast.cli.tools import Serving
from holdfast.wiring.cli import SystemToolbox

state_dir, host = sys.argv[1:]
box = SystemToolbox(system_terminal(no_colour=True), os.environ)
hub = box.ledgers.booted(state_dir, strict=False)
box.hubs.serve(hub, Serving(host, 0, state_dir), lambda port, key: print(port, key, flush=True))
box.close()
print("ended", flush=True)
"""


class Far(Served):
    """A hub in another process: where it listens is all that is known of it."""

    def __init__(self, said: str, fleet_id: str) -> None:
        port, _, self.hub_key = said.partition(" ")
        self.host, self.port = HOST, int(port)
        self.fingerprint = ssh_key.fingerprint(ssh_key.parse(self.hub_key))
        self.tls = client.pinned_context(self.hub_key, HOST, time.time)
        self._fleet_id = fleet_id

    @property
    def fleet_id(self) -> str:
        return self._fleet_id


def fleet_of(ledger: Path) -> str:
    store = SqliteStore.open_read_only(str(ledger))
    applied = reading.load(store).applied
    store.close()
    assert applied is not None
    return applied.fleet_id


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    store = SqliteStore.open(str(path), create=True)
    grown_mailbox(3, store, SystemClock())
    store.close()
    return path


@contextmanager
def process(ledger: Path, host: str = "127.0.0.1", notify: str = "") -> Iterator[subprocess.Popen[str]]:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(ledger.parent), host],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "NOTIFY_SOCKET": notify},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield run
    finally:
        with suppress(ProcessLookupError):
            run.kill()
        run.communicate(timeout=60)


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


def rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def test_an_idle_hub_is_small_and_stays_so_after_being_used(ledger: Path) -> None:
    watch = Stopwatch()
    with process(ledger) as run:
        hub = Far(line_of(run.stdout), fleet_of(ledger))
        listened = watch.within(10)
        assert get(hub, "/v1/head").json()["head"]["number"] == 3
        link = hub.link()
        for version in (11, 12, 13):
            link.commit(next_candidate(small_fleet({"web": version}), link.applied()))
        link.close()
        for _ in range(200):
            assert get(hub, "/v1/applied").status == 200
        used_kib = rss_kib(run.pid)
        assert used_kib <= RSS_MAX_KIB, f"{used_kib} KiB"
        assert listened, "a hub listens within 10 s"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_time_with_its_door_closed(ledger: Path, number: signal.Signals) -> None:
    with process(ledger) as run:
        hub = Far(line_of(run.stdout), fleet_of(ledger))
        with connected(hub) as idle, connected(hub) as asked:
            asked.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert reply(asked).status == 200
            watch = Stopwatch()
            run.send_signal(number)
            assert line_of(run.stdout) == "ended"
            assert run.wait(60) == 0
            assert watch.within(5)
            assert idle.recv(1) == b""
        with pytest.raises(ConnectionError):
            connected(hub)


def test_the_service_manager_hears_when_it_is_ready_and_when_it_stops(ledger: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        with process(ledger, notify=str(tmp_path / "notify")) as run:
            hub = Far(line_of(run.stdout), fleet_of(ledger))
            assert manager.recv(100) == b"READY=1"
            assert get(hub, "/healthz").status == 200
            run.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert run.wait(60) == 0


def test_a_request_taken_before_a_restart_is_refused_after_it(ledger: Path) -> None:
    """W8: nonces are durable; without that, every restart would open the window again for what was recorded."""
    with process(ledger) as run:
        hub = Far(line_of(run.stdout), fleet_of(ledger))
        recorded = request(hub, "GET", "/v1/status")
        assert raw(hub, recorded).status == 200
        run.kill()
        run.wait(60)
    with process(ledger) as run:
        again = Far(line_of(run.stdout), fleet_of(ledger))
        assert again.hub_key == hub.hub_key
        refused = raw(again, recorded)
        assert (refused.status, refused.json()["code"]) == (401, "replayed")
        assert raw(again, request(again, "GET", "/v1/status")).status == 200


def test_a_key_that_others_can_read_ends_it_before_it_listens(ledger: Path) -> None:
    with process(ledger) as run:
        line_of(run.stdout)
    ledger.with_name("hub.key").chmod(0o644)
    with process(ledger) as run:
        output, trouble = run.communicate(timeout=60)
    assert run.returncode != 0
    assert output == ""
    assert "NotPermitted" in trouble


def test_a_damaged_ledger_ends_it_before_it_listens(ledger: Path) -> None:
    ledger.write_bytes(ledger.read_bytes()[:3000])
    for suffix in ("-wal", "-shm"):
        ledger.with_name(ledger.name + suffix).unlink(missing_ok=True)
    with process(ledger) as run:
        output, trouble = run.communicate(timeout=60)
    assert run.returncode != 0
    assert output == ""
    assert "Corrupt" in trouble
