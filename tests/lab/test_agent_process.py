"""The agent as its users meet it: `agent join`, `run`, `check`, `journal` against a real hub, and killed in between."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.kept_services import end_kept_services
from tests.fleets.lab_pasting import filled, pastes, runs
from tests.fleets.ports import free_port
from tests.fleets.waiting import Stopwatch, wait_until
from tests.lab.product import KILLED, PYTHON, Outcome, strace

pytestmark = pytest.mark.lab

RSS_KB_MAX = 75_000
NODES = ["w1", "e1", *(f"j{number}" for number in range(40 if SOAK else 12)), "k1", "k2", "t1", "r1", "r2", "r3"]


@dataclass(frozen=True)
class Fleet:
    root: Path
    environ: dict[str, str]
    url: str

    def run(self, *words: str, wrap: tuple[str, ...] = (), stdin: str = "") -> Outcome:
        done = subprocess.run(
            [*wrap, PYTHON, "-m", "holdfast", *words],
            cwd=self.root / "fleet", env=self.environ, capture_output=True, text=True, timeout=90, input=stdin,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    def token(self, node: str) -> str:
        return next(word for word in self.run("node", "invite", node).ok().out.split() if word.startswith("hfj_"))

    def state(self, node: str) -> Path:
        return self.root / "nodes" / node

    def join(self, node: str, token: str, *words: str, wrap: tuple[str, ...] = ()) -> Outcome:
        return self.run(
            "agent", "join", "-", "--state-dir", str(self.state(node)), "--json", *words, wrap=wrap, stdin=token
        )

    @contextmanager
    def agent(self, node: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
        places = ["--data-dir", str(self.root / "srv"), "--run-dir", str(self.root / "run")]
        command = ["agent", "run", "--state-dir", str(self.state(node)), *places, *words]
        process = subprocess.Popen(
            [PYTHON, "-m", "holdfast", *command], cwd=self.root, env=self.environ, stderr=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=60)

    def node(self, name: str) -> dict[str, Any]:
        nodes = self.run("node", "list", "--json").ok().json["nodes"]
        found: dict[str, Any] = next(node for node in nodes if node["name"] == name)
        return found


def heard(process: "subprocess.Popen[str]", event: str) -> dict[str, Any]:
    """The next line of its log with this event; the test's own time limit bounds the waiting."""
    assert process.stderr is not None
    for line in process.stderr:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"it ended without {event}")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    root = tmp_path_factory.mktemp("agents")
    (root / "srv").mkdir()
    (root / "home").mkdir()
    key = root / "op"
    environ = {**os.environ, "HOME": str(root / "home"), "HOLDFAST_KEY": str(key)}
    for name in ("HOLDFAST_HUB", "HOLDFAST_FLEET", "SSH_AUTH_SOCK", "XDG_STATE_HOME", "NOTIFY_SOCKET"):
        environ.pop(name, None)
    (root / "fleet").mkdir()
    made = Fleet(root, environ, "")
    subprocess.run(
        [PYTHON, "-m", "holdfast", "init", "fleet", "--key", key, "--yes", "-q"],
        cwd=root, env=environ, check=True, timeout=60, capture_output=True,
    )  # fmt: skip
    trust = made.run("validate", "--json").ok().json["trust"]
    hub_key = made.run("hub", "init", "--trust", trust, "--state-dir", str(root / "hub"), "--json").ok().json["hub_key"]
    hub = subprocess.Popen(
        [PYTHON, "-m", "holdfast", "hub", "run", "--state-dir", root / "hub", "--listen", "127.0.0.1:0"],
        cwd=root, env=environ, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert hub.stderr is not None
        found = None
        while found is None:
            found = re.search(r"https://\S+", hub.stderr.readline())
        url = found[0]
        text = (root / "fleet" / "fleet.toml").read_text()
        settings = f'name = "fleet"\nhub = "{url}"\nhub_key = "{hub_key}"\npublic_domains = ["example.test"]'
        text = text.replace('name = "fleet"', settings, 1)
        text += "".join(f'\n[[nodes]]\nname = "{n}"\nroles = ["{"edge" if n == "e1" else "worker"}"]\n' for n in NODES)
        (root / "fleet" / "fleet.toml").write_text(text)
        made = Fleet(root, environ, url)
        made.run("apply", "--yes").ok()
        yield made
    finally:
        end_kept_services(root / "run")
        hub.terminate()
        hub.communicate(timeout=60)


def test_a_node_joins_runs_says_so_and_leaves_in_time(fleet: Fleet) -> None:
    """T-01, M-51, T-17: and a second copy is exit 5, RSS stays below 75 MB, all files are private."""
    token = fleet.token("w1")
    first = fleet.join("w1", token, "--address", "192.0.2.9").ok().json
    assert (first["node"], first["hub"]) == ("w1", fleet.url)
    assert fleet.join("w1", token).ok().json == first  # idempotent
    with fleet.agent("w1") as process:
        assert heard(process, "accepted")["revision"] >= 1
        wait_until(lambda: fleet.node("w1")["status"] == "healthy", "w1 is healthy")
        assert fleet.node("w1")["address"] == "192.0.2.9"
        second = fleet.run("agent", "run", "--state-dir", str(fleet.state("w1")), "--json")
        second.refused(5, "locked")
        check = fleet.run("agent", "check", "--state-dir", str(fleet.state("w1")), "--json")
        assert (check.code, check.json["sound"], check.json["revision"] >= 1) == (0, True, True)
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found and int(found[1]) <= RSS_KB_MAX, found
        watch = Stopwatch()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and watch.within(5)
    state = fleet.state("w1")
    assert state.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}
    assert token[4:40] not in "".join(path.read_text("latin-1") for path in state.iterdir())  # the secret is used up
    fleet.run("agent", "check", "--state-dir", str(state)).ok()


def test_flags_assert_and_name_both_values(fleet: Fleet) -> None:
    """T-16…T-19, C-36"""
    state = str(fleet.state("t1"))
    nobody = fleet.run("agent", "run", "--state-dir", state, "--url", fleet.url, "--json")
    assert "agent join" in nobody.refused(2, "not_joined")["remedy"]
    token = fleet.token("t1")
    wrong = fleet.run("agent", "run", "--state-dir", state, "--token", token, "--url", "https://other:1", "--json")
    said = wrong.refused(5, "failed_precondition")["message"]
    assert "https://other:1" in said and fleet.url in said
    with fleet.agent("t1", "--url", fleet.url, "--token", token) as process:  # joins on its first run
        heard(process, "joined")
        heard(process, "accepted")
    proxy = fleet.run("agent", "run", "--state-dir", state, "--proxy", "--json").refused(5, "failed_precondition")
    assert "edge" in proxy["message"] and "worker" in proxy["message"]
    fleet.join("e1", fleet.token("e1")).ok()
    with fleet.agent("e1", "--proxy") as process:
        heard(process, "accepted")


def test_what_an_agent_that_has_not_joined_prints_makes_it_join(fleet: Fleet) -> None:
    lines: list[str] = []

    def typed(line: str) -> Outcome:
        lines.append(line)
        return Outcome(0, "", "")

    def runs_on(line: str) -> Outcome:
        with fleet.agent(node, *shlex.split(line)[3:]) as process:
            heard(process, "started")
        return Outcome(0, "", "")

    node = "r1"
    printed = fleet.run("agent", "run", "--state-dir", str(fleet.state(node)), "--json").refused(2, "not_joined")
    remedy = "holdfast agent join TOKEN --state-dir {}; an operator gets the token from: holdfast node invite NAME"
    pastes(remedy, [printed["remedy"]], typed, NAME=node)
    join, invite = lines
    token = re.findall(r"hfj_\S+", fleet.run(*shlex.split(invite)[1:]).ok().out)[0]
    fleet.run(*shlex.split(filled(join, {"TOKEN": token}))[1:]).ok()
    runs("holdfast agent run --listen ADDRESS:PORT", (), runs_on, ADDRESS="127.0.0.1", PORT=str(free_port()))
    runs("holdfast agent run --run-dir DIR", (), runs_on, DIR=str(fleet.root / "another-run"))
    node = "r2"
    (fleet.root / "token").write_text(fleet.token(node))
    runs("holdfast agent run --token-file FILE", (), runs_on, FILE=str(fleet.root / "token"))


def podman_services(words: str) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            said = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")
            if said[1:3] == ["system", "service"] and any(words in word for word in said):
                found.append(int(name))
    return found


def test_relative_paths_work_and_one_podman_service_serves_and_ends_n06(fleet: Fleet) -> None:
    """Podman takes the first part of a relative path for a host name: it would listen elsewhere, once for each try."""
    fleet.join("r3", fleet.token("r3")).ok()
    run_dir, wanted = fleet.root / "run-r3", fleet.root / "fleet" / "services" / "wanted.toml"
    image = f"127.0.0.1:9/none@sha256:{'0' * 64}"  # only asked for: podman is started when there is a component
    wanted.write_text(f'node = "r3"\n[[components]]\nname = "web"\nimage = "{image}"\n')
    fleet.run("apply", "--yes", "--detach").ok()
    with fleet.agent("r3", "--state-dir", "nodes/r3", "--data-dir", "srv", "--run-dir", run_dir.name) as process:
        wait_until((run_dir / "podman.sock").is_socket, "podman listens below the directory that was meant")
        wait_until(lambda: fleet.node("r3")["status"] == "healthy", "r3 is healthy")
        assert len(podman_services(run_dir.name)) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert podman_services(run_dir.name) == []
    wanted.unlink()
    fleet.run("apply", "--yes", "--detach", "--allow-removals", "1").ok()


def test_a_token_is_for_one_node_and_a_directory_for_one_too(fleet: Fleet) -> None:
    """S04's shape at the agent: used up, altered, or for somebody else."""
    token = fleet.token("k1")
    fleet.join("k1", token).ok()
    elsewhere = fleet.run("agent", "join", "-", "--state-dir", str(fleet.state("k1-thief")), "--json", stdin=token)
    assert elsewhere.code == 3, elsewhere
    other = fleet.run("agent", "join", "-", "--state-dir", str(fleet.state("k1")), "--json", stdin=fleet.token("k2"))
    other.refused(5, "already_exists")
    for bad in (token[:-20], token.replace("hfj_", ""), "", "hfj_" + "A" * 200):
        fleet.run("agent", "join", "-", "--state-dir", str(fleet.state("k3")), "--json", stdin=bad).refused(2)
    assert not fleet.state("k3").exists()


def test_a_join_killed_anywhere_is_repeated_and_succeeds(fleet: Fleet) -> None:
    """R02: one key, one node, whichever flush or rename was the last one."""
    calls = ["fsync", "renameat", "mkdir", "sendto"]
    nodes = iter(name for name in NODES if name.startswith("j"))
    killed = 0
    for call in calls:
        for n in range(1, 11 if SOAK else 3):
            node = next(nodes)
            token = fleet.token(node)
            wrap = tuple(strace(fleet.root / "strace.log", [f"{call}:signal=SIGKILL:when={n}"]))
            cut = fleet.join(node, token, wrap=wrap)
            assert cut.code in (0, KILLED, 128 - KILLED), cut
            killed += cut.code != 0
            key = fleet.state(node) / "node.key"
            before = key.read_bytes() if key.exists() else None
            again = fleet.join(node, token).ok().json
            assert before in (None, key.read_bytes()), "the key was replaced"
            assert fleet.node(node)["key"] == again["key"] or again["fingerprint"] in str(fleet.node(node))
            assert fleet.run("agent", "check", "--state-dir", str(fleet.state(node))).code == 0
            if cut.code == 0:
                break
    assert killed >= (6 if SOAK else 4)


def in_a_shell(line: str) -> Outcome:
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_check_finds_what_is_wrong(fleet: Fleet) -> None:
    """Exit 7: modes, key, journal, chain, audit."""
    source = fleet.state("w1")
    if not source.exists():
        fleet.join("w1", fleet.token("w1")).ok()
        with fleet.agent("w1") as process:
            heard(process, "accepted")

    def spoiled(name: str, spoil: Callable[[Path], object]) -> list[str]:
        folder = fleet.state(f"spoiled {name}")
        shutil.copytree(source, folder)
        spoil(folder)
        done = fleet.run("agent", "check", "--state-dir", str(folder), "--json")
        assert done.code == 7 and "Traceback" not in done.err, (name, done)
        if name == "mode":
            printed = [finding["remedy"] for finding in done.json["findings"]]
            pastes("chmod 600 {}", printed, in_a_shell)[0].ok()
            assert "sound" in fleet.run("agent", "check", "--state-dir", str(folder)).ok().out
        return [finding["code"] for finding in done.json["findings"]]

    assert spoiled("mode", lambda f: (f / "agent.db").chmod(0o644)) == ["mode"]
    assert "key" in spoiled("key", lambda f: (f / "node.key").unlink())
    assert spoiled("audit", lambda f: (f / "audit.jsonl").write_bytes((f / "audit.jsonl").read_bytes()[:-40])) == [
        "audit_broken"
    ]
    assert spoiled("head", lambda f: (f / "audit.head").unlink()) == ["audit_broken"]
    assert spoiled("db", lambda f: (f / "agent.db").write_bytes(b"x" * 5000)) == ["agent_state_damaged"]


def _life(fleet: Fleet, before: str) -> str:
    """Of the agent that runs now, once it has reported: an order names it."""

    def shown() -> str:
        return str(fleet.run("node", "show", "w1", "--json").ok().json["life"])

    wait_until(lambda: shown() not in ("", before), "w1 has reported since its agent started")
    return shown()


def test_orders_are_run_by_a_real_agent_once_and_the_journal_tells(fleet: Fleet) -> None:
    """I-27 end to end: signed, carried, run, journaled, audited on both sides; also across kill -9 of the agent."""
    state = fleet.state("w1")
    if not state.exists():
        fleet.join("w1", fleet.token("w1")).ok()
    data = fleet.root / "srv" / "shop"
    data.mkdir()
    (data / "file").write_bytes(b"x")
    words = ("order", "sign", "--node", "w1", "--action", "purge", "--target", "data.shop", "--submit", "--yes")
    with fleet.agent("w1") as process:
        heard(process, "started")
        first = _life(fleet, "")
        fleet.run(*words).ok()
        assert heard(process, "order_ended")["outcome"] == "done"
        assert not data.exists()
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    data.mkdir()
    (data / "file").write_bytes(b"newer")
    with fleet.agent("w1") as process:
        heard(process, "started")
        _life(fleet, first)
        fleet.run("order", "sign", "--node", "w1", "--action", "ping", "--target", "node.w1", "--submit", "--yes").ok()
        assert heard(process, "order_ended")["kind"] == "ping"  # whatever waited before it was looked at
    assert (data / "file").read_bytes() == b"newer"
    journal = fleet.run("agent", "journal", "--state-dir", str(state), "--json").ok().json["operations"]
    assert [(o["kind"], o["outcome"]) for o in journal] == [("ping", "done"), ("purge", "done")]
    assert [step["name"] for step in journal[1]["steps"]] == ["measured", "condemned"]
    shown = fleet.run("agent", "journal", "--state-dir", str(state)).ok().out
    assert "purge shop" in shown
