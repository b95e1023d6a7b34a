"""Orders end to end: command line, hub and agent as processes on loopback (S07, S08, I-03, I-27).

A purge is the effect that is counted: the directory is put back after each, so a second run would be seen.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.kept_services import end_kept_services
from tests.fleets.ports import free_port
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome, Place, Warm, end, new_place, warm

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

NODE = "w1"
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
HOLD_S = 1.5  # longer than a hub of this pace holds a check-in
LEASE_S = 75.0  # longer than an order is lent to a process that died with it
CUTS_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2) if SOAK else (0.02, 0.1)
REPLAYS, AT_ONCE = (1000, 50) if SOAK else (30, 8)


TOLD = "resync_needed"


class Fleet:
    """One hub, one node, one operator; everything below one directory."""

    def __init__(self, root: Path, interpreter: Warm) -> None:
        self.interpreter = interpreter
        self.place: Place = new_place(root / "place")
        self.data = root / "data"
        self.agent_dir, self.hub_dir, self.run_dir = root / "agent", root / "hub", root / "run"
        self.log = root / "log"
        self.clock_file = root / "faketime"
        self.clock_file.write_text("+0")
        self.data.mkdir()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"

    def found(self) -> None:
        """Hub, first revision, agent: until the node is healthy."""
        trust = self.run("validate", "--json").ok().json["trust"]
        made = self.run("hub", "init", "--trust", trust, "--state-dir", str(self.hub_dir), "--json").ok().json
        self.hub_key = str(made["hub_key"])
        self.place.replace("fleet.toml", "# hub = ", f'hub = "{self.url}"\nhub_key = "{self.hub_key}"\n# hub = ')
        node = f'[[nodes]]\nname = "{NODE}"\nroles = ["worker"]\n\n# A second machine'
        self.place.replace("fleet.toml", "# A second machine", node)
        self.start_hub()
        self.run("apply", "--yes", "--detach").ok()
        self.start_agent(self.token())
        self.await_state("healthy")

    def run(self, *words: str) -> Outcome:
        return self.interpreter.run(self.place, *words)

    # ---- processes

    def _spawn(self, name: str, *words: str, env: dict[str, str] | None = None) -> None:
        with self.log.open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.place.command(*words),
                env={**self.place.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_hub(self) -> None:
        listen = f"127.0.0.1:{self.port}"
        self._spawn("hub", "hub", "run", "--state-dir", str(self.hub_dir), "--listen", listen, "--pace", "fast")
        self.wait(lambda: _listens(self.port))

    def start_agent(self, token: str = "", faked: bool = False) -> None:
        dirs = [f"--{name}-dir={path}" for name, path in (("state", self.agent_dir), ("data", self.data))]
        more = ["--token", token] if token else []
        faking = {
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self.clock_file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        words = ("agent", "run", *dirs, "--run-dir", str(self.run_dir), *more)
        self._spawn("agent", *words, env=faking if faked else None)

    def restart_agent(self, faked: bool = False) -> None:
        """Ready when the hub no longer holds a check-in of the process before: an order given to that line would wait
        for its lease to end."""
        begun_s = time.monotonic()
        self.start_agent(faked=faked)
        self.wait(lambda: time.monotonic() - begun_s > HOLD_S and (self.node()["age_s"] or 99) < HOLD_S)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self.processes.pop(name)
        process.send_signal(how)
        end(process, 15)

    def close(self) -> None:
        for name in list(self.processes):
            self.stop(name, signal.SIGKILL)
        end_kept_services(self.run_dir)

    def wait(self, true: Callable[[], bool]) -> None:
        wait_until(true, lambda: self.log.read_text()[-3000:])

    # ---- looking

    def node(self) -> dict[str, Any]:
        found = self.run("node", "list", "--json").ok().json["nodes"]
        return next(dict(node) for node in found if node["name"] == NODE)

    def await_state(self, status: str) -> None:
        self.wait(lambda: self.node()["status"] == status)

    def token(self) -> str:
        return str(self.run("node", "invite", NODE, "--yes", "--json").ok().json["token"])

    # ---- data and orders

    def fill(self) -> None:
        web = self.data / "web"
        web.mkdir(exist_ok=True)
        (web / "precious").write_text("2")

    def is_filled(self) -> bool:
        return (self.data / "web" / "precious").exists()

    def purge(self, *more: str, action: str = "purge", target: str = "data.web") -> Path:
        """A signed order in a file, not handed in."""
        file = self.place.root / f"{time.monotonic_ns()}.order"
        words = ("order", "sign", "--node", NODE, "--action", action, "--target", target, "--yes", "-o", str(file))
        self.run(*words, *more).ok()
        return file

    def submit(self, file: Path, *more: str) -> Outcome:
        return self.run("order", "submit", str(file), "--json", *more)

    def state_of(self, order: str) -> str:
        found = self.run("order", "list", "--node", NODE, "--json").ok().json["orders"]
        return next((str(view["state"]) for view in found if view["id"] == order), "")


def _listens(port: int) -> bool:
    with socket.socket() as trying:
        trying.settimeout(0.2)
        return trying.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with warm() as interpreter:
        made = Fleet(tmp_path_factory.mktemp("fleet"), interpreter)
        try:
            made.found()
            yield made
        finally:
            made.close()


def test_an_order_is_done_once_and_told(fleet: Fleet) -> None:
    fleet.fill()
    done = fleet.submit(fleet.purge(), "--wait").ok().json
    assert done["order"]["state"] == "done" and not (fleet.data / "web").exists()
    assert fleet.state_of(done["id"]) == "done"


def test_a_ping_is_answered(fleet: Fleet) -> None:
    assert (
        fleet.submit(fleet.purge(action="ping", target=f"node.{NODE}"), "--wait").ok().json["order"]["state"] == "done"
    )


def test_a_changed_order_is_refused_by_the_hub_already_s07(fleet: Fleet) -> None:
    """What reaches an agent in spite of its hub is in tests/scenarios/test_hostile_orders.py."""
    fleet.fill()
    good = json.loads(fleet.purge().read_text())
    file = fleet.place.root / "changed.order"
    text = good["signed"]["signatures"][0]
    for at in range(60, len(text) - 60, 31):
        changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        file.write_text(
            json.dumps(good | {"signed": good["signed"] | {"signatures": [changed]}}, separators=(",", ":"))
        )
        assert fleet.submit(file).code in (3, 7)
    assert fleet.is_filled()


def test_replayed_and_interrupted_an_order_has_one_effect_s08(fleet: Fleet) -> None:
    """Many times in parallel, after a restart, after kill -9 of agent and hub, with the hub's ledger rolled back."""
    fleet.fill()
    order = fleet.purge()
    ledger_before = _copy(fleet)
    assert fleet.submit(order, "--wait").ok().json["order"]["state"] == "done"
    fleet.fill()

    words = fleet.place.command("order", "submit", str(order), "--json")
    with ThreadPoolExecutor(AT_ONCE) as many:  # cold processes, really at once
        codes = list(many.map(lambda _: _quiet(fleet, words), range(AT_ONCE * 2)))
    assert set(codes) == {0}, codes
    for _ in range(REPLAYS):
        fleet.submit(order).ok()
    _settle(fleet)
    assert fleet.is_filled()

    fleet.stop("agent", signal.SIGKILL)
    fleet.restart_agent()
    fleet.submit(order).ok()
    _settle(fleet)
    assert fleet.is_filled()

    # A hub that lost the result, or says so, hands the same order out again.
    fleet.stop("hub", signal.SIGKILL)
    _restore(fleet, ledger_before)
    fleet.start_hub()
    fleet.submit(order, "--wait").ok()
    _settle(fleet)
    assert fleet.is_filled(), "the order ran a second time"


def test_killed_in_the_middle_of_it_an_order_ends_with_one_effect_s08(fleet: Fleet) -> None:
    for delay_s in CUTS_S:
        fleet.fill()
        for number in range(300):
            (fleet.data / "web" / f"f{number}").write_text("x")
        taken = fleet.submit(fleet.purge()).ok().json["id"]
        time.sleep(delay_s)  # not a wait for something: where the cut falls
        fleet.stop("agent", signal.SIGKILL)
        fleet.start_agent()
        fleet.wait(lambda taken=taken: fleet.state_of(taken) in ("done", "refused"))  # type: ignore[misc]
        if fleet.state_of(taken) == "refused":  # it had not begun, and the life that it names is over
            assert fleet.is_filled()
            continue
        aside = fleet.data / f".purging-{taken}-web"
        assert not (fleet.data / "web").exists() and len(list(aside.glob("f*"))) == 300


def test_a_state_directory_that_was_put_back_runs_no_order_before_a_resync(fleet: Fleet) -> None:
    """X05: the node learns it from its own pulse, says so, and goes on after one signed resync."""
    copy = fleet.place.root / "copy"
    fleet.stop("agent")
    shutil.copytree(fleet.agent_dir, copy)
    fleet.restart_agent()
    fleet.fill()
    assert fleet.submit(fleet.purge(), "--wait").ok().json["order"]["state"] == "done"
    fleet.fill()
    fleet.stop("agent", signal.SIGKILL)
    shutil.rmtree(fleet.agent_dir)
    copy.rename(fleet.agent_dir)
    fleet.restart_agent()
    told = [finding for finding in fleet.run("status", "--json").ok().json["findings"] if finding["code"] == TOLD]
    assert [finding["remedy"] for finding in told] == [f"holdfast resync {NODE}"]
    assert fleet.submit(fleet.purge(), "--wait").refused(3, TOLD) and fleet.is_filled()
    assert "sign again" in fleet.run("order", "list").ok().out
    fleet.run("resync", NODE).ok()
    assert fleet.submit(fleet.purge(), "--wait").ok().json["order"]["state"] == "done" and not fleet.is_filled()


def test_an_order_that_expired_at_the_hub_never_runs_s08(fleet: Fleet) -> None:
    fleet.fill()
    fleet.stop("agent")
    order, taken, _ = _short_lived(fleet)
    fleet.wait(lambda: fleet.state_of(taken) == "expired")
    assert fleet.submit(order).code in (3, 5)
    fleet.restart_agent()
    _settle(fleet)
    assert fleet.is_filled()


def test_a_clock_that_lies_revives_nothing_and_poisons_nothing_s08(fleet: Fleet) -> None:
    """One day back and ten years ahead, then right again; the agent is told the time by libfaketime."""
    fleet.fill()
    fleet.stop("agent")
    _, _, lives_s = _short_lived(fleet)
    time.sleep(lives_s + 0.1)
    fleet.restart_agent(faked=True)
    _settle(fleet)
    for offset in ("-1d", "+3650d", "+0"):
        _set(fleet.clock_file, offset)
        if offset == "+0":
            break
        time.sleep(1.5)
        assert fleet.is_filled(), offset
    fleet.await_state("healthy")
    done = fleet.submit(fleet.purge(), "--wait").ok().json
    assert done["order"]["state"] == "done" and not (fleet.data / "web").exists()


def _set(clock_file: Path, offset: str) -> None:
    """In one step: an agent that read an empty file would end."""
    draft = clock_file.with_suffix(".draft")
    draft.write_text(offset)
    os.replace(draft, clock_file)


def _short_lived(fleet: Fleet) -> tuple[Path, str, int]:
    """An order that the hub took before it expired, its id, and its life in seconds: 2, or more on a busy machine."""
    for lives_s in (2, 8, 32):
        order = fleet.purge("--expires", f"{lives_s}s")
        taken = fleet.submit(order)
        if taken.code == 0:
            return order, str(taken.json["id"]), lives_s
    raise AssertionError(taken)


def _settle(fleet: Fleet) -> None:
    """Long enough for the agent to have fetched whatever there is: a ping that comes back."""
    assert (
        fleet.submit(fleet.purge(action="ping", target=f"node.{NODE}"), "--wait").ok().json["order"]["state"] == "done"
    )


def _quiet(fleet: Fleet, words: list[str]) -> int:
    env = fleet.place.environ
    return subprocess.run(words, cwd=fleet.place.fleet, env=env, capture_output=True, timeout=60).returncode


def _copy(fleet: Fleet) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in fleet.hub_dir.glob("ledger.db*")}


def _restore(fleet: Fleet, files: dict[str, bytes]) -> None:
    for path in fleet.hub_dir.glob("ledger.db*"):
        os.unlink(path)
    for name, content in files.items():
        (fleet.hub_dir / name).write_bytes(content)
