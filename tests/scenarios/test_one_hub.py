"""One state directory has one hub, and that hub is the one the fleet knows."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.model import ssh_key
from holdfast.model.fleet import Fleet
from holdfast.wiring import cli as wiring
from tests.architecture.remedies import commands
from tests.fleets.build import grown_mailbox, next_candidate, small_fleet

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True)
def nobody_at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())


def a_ledger(state_dir: Path, hub_key: str = "") -> None:
    store = SqliteStore.open(str(state_dir / "ledger.db"), create=True)
    mailbox = grown_mailbox(1, store, SystemClock())
    fleet = small_fleet({"web": 5})
    settings = replace(fleet.settings, hub_key=hub_key)
    mailbox.commit(next_candidate(replace(fleet, settings=settings), mailbox.applied()))
    store.close()


def committed(state_dir: Path, fleet: Fleet) -> int:
    """As an offline `apply --hub DIR` does it."""
    box = wiring.SystemToolbox(None, {})  # type: ignore[arg-type]
    try:
        mailbox = box.hubs.writer(str(state_dir))
        return mailbox.commit(next_candidate(fleet, mailbox.applied())).number
    finally:
        box.close()


def hub_run(state_dir: Path, *more: str) -> subprocess.Popen[str]:
    words = ["hub", "run", "--state-dir", str(state_dir), "--listen", "127.0.0.1:0", *more]
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"from holdfast.wiring import cli; raise SystemExit(cli.command_line({words!r}))",
        ],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def refused(state_dir: Path, *more: str) -> tuple[int, dict[str, str]]:
    """In a process of its own: one that is not refused would serve until it is ended."""
    hub = hub_run(state_dir, "--json", *more)
    try:
        _, said = hub.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        hub.kill()
        hub.communicate(timeout=60)
        raise AssertionError("it serves") from None
    return hub.returncode, json.loads(said.strip().splitlines()[-1])


def test_a_second_hub_on_one_state_directory_is_refused_and_an_apply_is_not(tmp_path: Path) -> None:
    """Two would each write the one audit log; O-34: the ledger's own lock is another one, and blocks no boot."""
    a_ledger(tmp_path)
    first = hub_run(tmp_path)
    try:
        assert first.stderr is not None
        assert "serving on" in first.stderr.readline()
        code, said = refused(tmp_path)
        assert (code, said["code"]) == (5, "locked")
        assert said["message"] == f"another hub is running with {tmp_path} (pid {first.pid})"
        assert committed(tmp_path, small_fleet({"web": 9})) == 3
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=60)
    again = hub_run(tmp_path)
    try:
        assert again.stderr is not None and "serving on" in again.stderr.readline(), "the kernel took the lock back"
    finally:
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=60)


def test_a_hub_whose_pinned_key_is_gone_refuses_and_makes_no_other(tmp_path: Path) -> None:
    """Design.md §3: whoever has that key is the hub; another one would look like an impostor to every node."""
    path = tmp_path / "hub.key"
    pinned = key_file.make(str(path), PosixDisk(), SystemRandom())
    a_ledger(tmp_path, pinned.line)
    kept = path.read_bytes()
    path.unlink()
    code, said = refused(tmp_path)
    assert (code, said["code"]) == (7, "hub_key_missing")
    assert ssh_key.fingerprint(ssh_key.parse(pinned.line)) in said["message"]
    assert "backup" in said["remedy"] and not path.exists(), "nothing was made in its place"
    key_file.make(str(path), PosixDisk(), SystemRandom())
    code, said = refused(tmp_path)
    assert (code, said["code"]) == (7, "hub_key_differs")
    assert refused(tmp_path, "--hub-key", str(path))[0] == 7
    path.write_bytes(kept)
    hub = hub_run(tmp_path)
    try:
        assert hub.stderr is not None and "serving on" in hub.stderr.readline()
    finally:
        hub.send_signal(signal.SIGTERM)
        hub.communicate(timeout=60)


def test_the_remedy_for_a_lost_key_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hub.key"
    a_ledger(tmp_path, key_file.make(str(path), PosixDisk(), SystemRandom()).line)
    path.unlink()
    _, said = refused(tmp_path)
    words = shlex.split(commands(said["remedy"])[0])[1:]
    assert words[:2] == ["hub", "init"] and wiring.command_line([*words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["hub_key"]
    fleet = small_fleet({"web": 5})
    committed(tmp_path, replace(fleet, settings=replace(fleet.settings, hub_key=made)))
    hub = hub_run(tmp_path)
    try:
        assert hub.stderr is not None and "serving on" in hub.stderr.readline()
    finally:
        hub.send_signal(signal.SIGTERM)
        hub.communicate(timeout=60)
