"""The hub's disk is gone: real hub, two real agents, and a ledger that comes back from what they hold (issue 3 §4)."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.model.revision import Head
from tests.fleets.lab_pasting import pastes, runs
from tests.fleets.ports import free_port
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome, Place, end, fingerprints, new_place

pytestmark = pytest.mark.lab

NODES = ("w1", "w2")


class Scene:
    """One hub and two agents on this machine's loopback, each a process with a state directory of its own."""

    def __init__(self, root: Path) -> None:
        self.place: Place = new_place(root)
        self.hub_state = root / "hub"
        self.port = free_port()
        self.fleet_id = self.place.run("validate", "--json").ok().json["trust"]
        self.hub_key = self.init_hub()
        self.place.replace(
            "fleet.toml",
            'name = "lab"\n',
            f'name = "lab"\nhub = "{self.url}"\nhub_key = "{self.hub_key}"\n',
        )
        with (self.place.fleet / "fleet.toml").open("a") as file:
            for node in NODES:
                file.write(f'\n[[nodes]]\nname = "{node}"\nroles = ["worker"]\n')
            file.write('\n[[alerts]]\nname = "chat"\nwebhook = "https://127.0.0.1:1/hook"\n')
        for service, node in (("a", "w1"), ("b", "w2"), ("old", "w2")):
            self.place.service(service, node=node, active=False)  # what revisions run is not looked at here

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def init_hub(self) -> str:
        words = ("hub", "init", "--trust", self.fleet_id, "--state-dir", str(self.hub_state), "--json")
        return str(self.place.run(*words).ok().json["hub_key"])

    def lose_the_disk(self) -> None:
        """All but the hub's key, which was kept elsewhere: nodes talk to nobody who has another one."""
        key = (self.hub_state / "hub.key").read_bytes()
        shutil.rmtree(self.hub_state)
        self.hub_state.mkdir(mode=0o700)
        (self.hub_state / "hub.key").write_bytes(key)
        (self.hub_state / "hub.key").chmod(0o600)
        assert self.init_hub() == self.hub_key

    def log(self, name: str) -> Path:
        return self.place.root / f"{name}.log"

    @contextmanager
    def process(self, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                self.place.command(*words),
                cwd=self.place.root,
                env=self.place.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            end(process, 10)

    @contextmanager
    def hub(self) -> Iterator[None]:
        """Listening when the block begins."""
        start = self.log("hub").stat().st_size if self.log("hub").exists() else 0
        words = ("hub", "run", "--state-dir", str(self.hub_state), "--listen", f"127.0.0.1:{self.port}")
        with self.process("hub", *words, "--pace", "fast") as process:
            wait_until(
                lambda: process.poll() is not None or b"serving on" in self.tail("hub", start), "the hub listens"
            )
            assert process.poll() is None, self.tail("hub", start).decode()
            yield

    def tail(self, name: str, start: int = 0) -> bytes:
        return self.log(name).read_bytes()[start:]

    def agent_state(self, node: str) -> Path:
        return self.place.root / f"agent-{node}"

    def join(self, node: str) -> None:
        token = self.place.run("node", "invite", node, "--json").ok().json["token"]
        self.place.run("agent", "join", token, "--state-dir", str(self.agent_state(node)), "--json").ok()

    @contextmanager
    def agent(self, node: str) -> Iterator[subprocess.Popen[bytes]]:
        root = self.place.root
        words = ("--state-dir", str(self.agent_state(node)), "--data-dir", str(root / f"srv-{node}"))
        with self.process(node, "agent", "run", *words, "--run-dir", str(root / f"run-{node}")) as process:
            yield process

    def head(self) -> Head:
        found = self.place.run("history", "--json").ok().json["revisions"][0]
        return Head(found["number"], found["digest"])

    def apply(self, *words: str) -> None:
        self.place.run("apply", "--yes", "--offline", *words).ok()


def test_a_lost_ledger_comes_back_and_agents_are_undisturbed(tmp_path: Path) -> None:
    """C-10, D-04: `hub init`, `hub run`, `import ledger`; then hub check is clean and a plan says No changes."""
    scene = Scene(tmp_path / "x")
    place = scene.place
    srv = {node: tmp_path / "x" / f"srv-{node}" for node in NODES}
    state = ("--state-dir", str(scene.hub_state))
    with scene.hub():
        scene.apply("--detach")
        for node in NODES:
            scene.join(node)
    with scene.agent("w1") as steady:  # from here to the end, whatever becomes of the hub
        with scene.hub(), scene.agent("w2"):
            wait_until(
                lambda: place.run("plan", "--json", "--offline").ok().json["grade"] == "destroy", "keys are proven"
            )
            scene.apply()  # records the keys
            (tmp_path / "url").write_text("https://127.0.0.1:1/hook")
            with (place.fleet / "fleet.toml").open("a") as file:
                file.write('\n[[alerts]]\nname = "own"\nsecret = "own-url"\nnodes = ["w1", "w2"]\n')
            place.run("secret", "set", "own-url", "--file", str(tmp_path / "url")).ok()
            (place.fleet / "services" / "old.toml").unlink()
            scene.apply("--allow-removals", "1")
            lost = scene.head()
        before = {node: fingerprints(folder) for node, folder in srv.items()}
        scene.lose_the_disk()
        refusal = place.run("import", "ledger", *state, "--json").refused(7, "salvage_incomplete")
        assert "no node sent a chain" in refusal["message"]

        def typed(line: str) -> Outcome:
            return place.run(*line.split()[1:])

        remedy = (
            "start the hub (`holdfast hub run --state-dir {}`) with its old key and address, and wait until nodes "
            "checked in; `holdfast hub check --state-dir {}` shows what arrived"
        )
        with scene.agent("w2") as restarted:
            with scene.hub():  # the first command of the remedy, with the old address
                running, _ = pastes(remedy, [refusal["remedy"]], typed)
                assert f"another hub is running with {scene.hub_state}" in running.err
                where = str(scene.hub_state)  # repeated until both nodes handed over
                runs("holdfast import ledger --state-dir DIR", (), typed, repeated=True, DIR=where)
            checked = place.run("hub", "check", *state).ok()
            assert f"history before revision {lost.number} was not kept" in checked.out
            with scene.hub():
                assert scene.head() == lost
                assert "No changes" in place.run("plan", "--offline").ok().out
                place.service("a", env="2", node="w1", active=False)
                scene.apply()  # waits until the nodes proved that they accepted it
                assert scene.head().number == lost.number + 1
            assert (steady.poll(), restarted.poll()) == (None, None)
        assert {node: fingerprints(folder) for node, folder in srv.items()} == before
