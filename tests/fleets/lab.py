"""The lab API of the tests: a lab made by the real command, commands for it, and a search for what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.lab import node as lab_node
from holdfast.lab import podman_files
from tests.lab.product import PYTHON, Outcome

CALL_S = 180.0  # a command ends earlier on an idle machine; a test that waits this long has failed


def command(*words: str) -> list[str]:
    return [PYTHON, "-m", "holdfast", *words]


@dataclass(frozen=True)
class LabUnderTest:
    """`lab` is a verb of the lab itself, `run` and `begin` any command with the lab's variables, all from the host.

    `inside` is a command in a node by `lab exec`, `enter` one without a command line of the product.
    """

    dir: Path
    home: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    python: str = PYTHON

    @property
    def environ(self) -> dict[str, str]:
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "NO_COLOR": "1", "HOLDFAST_LAB": str(self.dir)}
        if "PYTHONPATH" in os.environ:  # a changed copy of the product under test
            own["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return {**own, **self.extra}

    def _call(self, words: list[str], env: Mapping[str, str], timeout_s: float) -> Outcome:
        done = subprocess.run(
            words,
            cwd=self.home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def _command(self, *words: str) -> list[str]:
        return [self.python, *command(*words)[1:]]

    def lab(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self._call(self._command("lab", *words), self.environ, timeout_s)

    def run(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self._call(self._command(*words), self.env, timeout_s)

    def inside(self, node: str, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self.lab("exec", node, "--", *words, timeout_s=timeout_s)

    def begin(self, *words: str, output: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """A command that the test waits for."""
        return subprocess.Popen(
            self._command(*words),
            cwd=self.home,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            text=True,
        )

    def enter(self, node: str, *words: str, timeout_s: float = CALL_S) -> Outcome:
        """In the namespaces of a node, and as podman there sees the machine."""
        inside = [*lab_node.entering(int(self.node(node)["pids"]["node"])), *words]
        return self._call(inside, {**self.env, **podman_files.variables()}, timeout_s)

    @property
    def env(self) -> dict[str, str]:
        return {**self.environ, **self.variables}

    @cached_property
    def variables(self) -> dict[str, str]:
        """Asked for once, when the lab is up: they stay the same."""
        found = self.lab("env", "--json").ok().json
        assert isinstance(found, dict)
        return found

    @property
    def status(self) -> Any:
        return self.lab("status", "--json").ok().json

    def node(self, name: str) -> Any:
        return next(node for node in self.status["nodes"] if node["name"] == name)

    def address(self, name: str) -> str:
        return str(self.node(name)["address"])

    @property
    def fleet(self) -> Path:
        return self.dir / "fleet"

    def write(self, service: str, text: str) -> None:
        (self.fleet / "services" / f"{service}.toml").write_text(text)

    def gone(self, service: str) -> None:
        (self.fleet / "services" / f"{service}.toml").unlink()

    def alert(self, url: str) -> None:
        """Alerts of this fleet go there, once this is applied."""
        path = self.fleet / "fleet.toml"
        path.write_text(f'{path.read_text()}\n[[alerts]]\nname = "ear"\napprise = "{url}"\n')
        self.run("apply", "--yes").ok()

    @property
    def registry(self) -> str:
        return str(self.status["registry"])

    @property
    def id(self) -> str:
        return str(json.loads((self.dir / "lab.json").read_text())["blueprint"]["id"])


def new_lab(room: Path, name: str = "lab", python: str = PYTHON) -> LabUnderTest:
    """Not up yet; the test that brings it up takes it down."""
    home = room / f"{name}-home"
    home.mkdir(parents=True, exist_ok=True)
    return LabUnderTest(room / name, home, python=python)


@contextmanager
def lab(
    room: Path, *, nodes: str | None = None, bare: bool = False, name: str = "lab", python: str = PYTHON
) -> Iterator[LabUnderTest]:
    """Up before, down after, whatever the test does in between; then nothing of it is left."""
    made, lab_id = new_lab(room, name, python), ""
    words = ["--nodes", nodes] if nodes else []
    try:
        made.lab("up", *words, *(["--bare"] if bare else [])).ok()
        lab_id = made.id
        yield made
    finally:
        made.lab("down").ok()
    assert traces(made.dir, lab_id) == []


def traces(directory: Path, lab_id: str) -> list[str]:
    """Everything on this machine that still belongs to that lab: /proc shows the processes of all namespaces."""
    words = (str(directory).encode() + b"/", lab_id.encode())
    found = [f"process {pid}" for pid in _pids() if any(_tells(pid, kind, words) for kind in KINDS)]
    found += [
        f"mount {line.decode()}"
        for line in Path("/proc/self/mountinfo").read_bytes().splitlines()
        if any(word in line for word in words)
    ]
    found += [f"link {link}" for link in os.listdir("/sys/class/net") if lab_id in link]
    rules = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    return found + [f"nft {line}" for line in rules.splitlines() if lab_id in line]


KINDS = ("environ", "cmdline", "mountinfo")


def _pids() -> list[int]:
    """Not this process and its ancestors, whose own words may name the directory."""
    mine, pid = set(), os.getpid()
    while pid > 1:
        mine.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) not in mine]


def _tells(pid: int, kind: str, words: tuple[bytes, ...]) -> bool:
    try:
        content = Path(f"/proc/{pid}/{kind}").read_bytes()
    except OSError:
        return False
    return any(word in content for word in words)
