"""A lab for tests: made by the real command, always taken away again, and a search for whatever it left behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.product import PYTHON, Outcome

UP_S_MAX, DOWN_S_MAX = 90, 40


def command(*words: str) -> list[str]:
    return [PYTHON, "-m", "holdfast", *words]


@dataclass(frozen=True)
class LabUnderTest:
    """`run` is any command with the lab's variables, `lab` a verb of the lab itself; both from the host."""

    dir: Path
    home: Path
    extra: Mapping[str, str] = field(default_factory=dict)

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
            env={**self.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def lab(self, *words: str, timeout_s: float = 60) -> Outcome:
        return self._call(command("lab", *words), {}, timeout_s)

    def run(self, *words: str, timeout_s: float = 60) -> Outcome:
        return self._call(command(*words), self.variables, timeout_s)

    def inside(self, node: str, *words: str, timeout_s: float = 60) -> Outcome:
        return self.lab("exec", node, "--", *words, timeout_s=timeout_s)

    @property
    def variables(self) -> dict[str, str]:
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
    def registry(self) -> str:
        return str(self.status["registry"])

    @property
    def id(self) -> str:
        return str(json.loads((self.dir / "lab.json").read_text())["blueprint"]["id"])


def new_lab(room: Path, name: str = "lab") -> LabUnderTest:
    """Not up yet; whoever brings it up takes it down."""
    home = room / f"{name}-home"
    home.mkdir(parents=True, exist_ok=True)
    return LabUnderTest(room / name, home)


@contextmanager
def lab(room: Path, *, nodes: str | None = None, bare: bool = False, name: str = "lab") -> Iterator[LabUnderTest]:
    """Up before, down after, whatever the test does in between."""
    made = new_lab(room, name)
    words = ["--nodes", nodes] if nodes else []
    try:
        made.lab("up", *words, *(["--bare"] if bare else []), timeout_s=UP_S_MAX).ok()
        yield made
    finally:
        made.lab("down", timeout_s=DOWN_S_MAX).ok()


def traces(directory: Path, lab_id: str) -> list[str]:
    """Everything on this machine that still tells of that lab: whoever reads /proc knows all namespaces, too."""
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
