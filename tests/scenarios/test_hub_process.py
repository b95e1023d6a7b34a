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
from holdfast.adapters.hub_link.http import HttpHub
from holdfast.adapters.ledger_store.sqlite import SqliteStore
from tests.fleets.build import grown_mailbox, next_candidate, small_fleet
from tests.fleets.serving import connected, get, reply

SOURCE = Path(__file__).parents[2] / "src"
RSS_MAX_KIB = 70 * 1024

RUN = """
import sys
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.entropy.system import SystemEntropy
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.ledger_store.sqlite import SqliteStore
from holdfast.hub.boot import boot
from holdfast.hub.daemon import serve
from holdfast.hub.mailbox import Mailbox

clock, mark = SystemClock(), MemoryHighWater()
store = SqliteStore.open(sys.argv[1], clock, create=False)
booted = boot(store, mark, strict=False)
hub = Mailbox(store, clock, SystemEntropy(), mark, booted.loaded, booted.findings)
serve(hub, sys.argv[2], 0, lambda port: print(port, flush=True))
print("ended", flush=True)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    store = SqliteStore.open(str(path), SystemClock(), create=True)
    grown_mailbox(3, store, SystemClock())
    store.close()
    return path


@contextmanager
def process(ledger: Path, host: str = "127.0.0.1", notify: str = "") -> Iterator[subprocess.Popen[str]]:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(ledger), host],
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
        run.communicate(timeout=10)


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


def rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def test_an_idle_hub_is_small_and_stays_so_after_being_used(ledger: Path) -> None:
    started_s = time.monotonic()
    with process(ledger) as run:
        port = int(line_of(run.stdout))
        listened_s = time.monotonic() - started_s
        assert get(port, "/v1/head").json()["head"]["number"] == 3
        hub = HttpHub(f"http://127.0.0.1:{port}")
        for version in (11, 12, 13):
            hub.commit(next_candidate(small_fleet({"web": version}), hub.applied()))
        hub.close()
        for _ in range(200):
            get(port, "/v1/applied")
        used_kib = rss_kib(run.pid)
        assert used_kib <= RSS_MAX_KIB, f"{used_kib} KiB"
        assert listened_s < 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_time_with_its_door_closed(ledger: Path, number: signal.Signals) -> None:
    with process(ledger) as run:
        port = int(line_of(run.stdout))
        with connected(port) as idle, connected(port) as asked:
            asked.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert reply(asked).status == 200
            started_s = time.monotonic()
            run.send_signal(number)
            assert line_of(run.stdout) == "ended"
            assert run.wait(10) == 0
            assert time.monotonic() - started_s < 5
            assert idle.recv(1) == b""
        with pytest.raises(ConnectionError):
            connected(port)


def test_it_warns_that_requests_are_not_authenticated(ledger: Path) -> None:
    with process(ledger) as run:
        line_of(run.stdout)
        warning = line_of(run.stderr)
    assert "not authenticated" in warning
    assert "operator signatures" in warning


def test_the_service_manager_hears_when_it_is_ready_and_when_it_stops(ledger: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        with process(ledger, notify=str(tmp_path / "notify")) as run:
            port = int(line_of(run.stdout))
            assert manager.recv(100) == b"READY=1"
            assert get(port, "/healthz").status == 200
            run.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert run.wait(10) == 0


def test_an_address_others_can_reach_ends_it_before_it_listens(ledger: Path) -> None:
    with process(ledger, "0.0.0.0") as run:
        output, trouble = run.communicate(timeout=20)
    assert run.returncode != 0
    assert output == ""
    assert "loopback" in trouble or "not authenticated" in trouble


def test_a_damaged_ledger_ends_it_before_it_listens(ledger: Path) -> None:
    ledger.write_bytes(ledger.read_bytes()[:3000])
    for suffix in ("-wal", "-shm"):
        ledger.with_name(ledger.name + suffix).unlink(missing_ok=True)
    with process(ledger) as run:
        output, trouble = run.communicate(timeout=20)
    assert run.returncode != 0
    assert output == ""
    assert "Corrupt" in trouble
