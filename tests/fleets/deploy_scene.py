"""A lab in which services are deployed: podman asked directly, doors knocked at, alerts and witnesses listened to.

What a test believes comes from podman, the container itself, or the disk, never from the product under test.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.lab import node as lab_node
from holdfast.lab import podman_files
from tests.fleets.fault_scene import Ear
from tests.fleets.lab import CALL_S, LabUnderTest, lab
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome

NODE = "w1"
NODES = f"hub1:hub,{NODE}:worker"
FOREIGN = "foreign"
LABEL = "holdfast.service"


@dataclass(frozen=True)
class Running:
    """A container as podman tells of it. Times are podman's own, in seconds."""

    id: str
    name: str
    service: str
    component: str
    running: bool
    pid: int
    started_s: float
    finished_s: float
    image: str
    ports: tuple[tuple[int, str], ...]  # inside, "address:port"

    @property
    def identity(self) -> tuple[str, int, float]:
        """What differs as soon as anybody touched it."""
        return self.id, self.pid, self.started_s


@dataclass(frozen=True)
class Happened:
    at_s: float
    what: str  # create, start, died, remove …
    id: str


class Collector:
    """Where witnesses report to: (instance, epoch, seq) in the order they came."""

    def __init__(self, address: str) -> None:
        self.heard: list[tuple[str, int, int]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 0))
        self.url = f"udp://{address}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while content := self._socket.recv(4096):
                said = json.loads(content)
                self.heard.append((said["instance"], said["epoch"], said["seq"]))

    def interleaved(self) -> list[str]:
        """Instances that spoke again after another one had spoken: two of them ran at once."""
        turns: list[str] = []
        for instance, _, _ in list(self.heard):
            if not turns or turns[-1] != instance:
                turns.append(instance)
        return [one for one in set(turns) if turns.count(one) > 1]

    def close(self) -> None:
        self._socket.close()


class DeployScene:
    def __init__(self, made: LabUnderTest) -> None:
        self.made = made
        self.env = made.env
        self.registry = made.registry
        self.host = self.registry.partition(":")[0]
        self.ear = Ear(self.host)
        self._collectors: dict[str, Collector] = {}
        self._init = int(made.node(NODE)["pids"]["node"])
        self._foreign: tuple[str, int, float] | None = None

    def close(self) -> None:
        self.ear.close()
        for collector in self._collectors.values():
            collector.close()

    # ---- commands

    def run(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self.made.run(*words, timeout_s=timeout_s)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return self.made.begin(*words)

    def deploy(self, name: str, *words: str) -> Outcome:
        return self.run("deploy", name, "--yes", *words)

    def inside(self, *words: str) -> str:
        """Straight into the node, without a command line of ours."""
        done = self._enter(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def _enter(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*lab_node.entering(self._init), *words],
            env={**self.env, **podman_files.variables()}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=CALL_S,
        )  # fmt: skip

    def podman(self, *words: str) -> str:
        return self.inside("podman", *words)

    def image(self, name: str) -> str:
        return f"{self.registry}/{name}"

    def build(self, folder: Path, name: str, text: str = "") -> str:
        """`text` is a Containerfile; without one the folder has its own."""
        folder.mkdir(parents=True, exist_ok=True)
        if text:
            (folder / "Containerfile").write_text(text)
        return self.made.lab("image", "build", str(folder), "--name", name).ok().out.strip()

    # ---- what is wanted

    def write(self, name: str, text: str) -> None:
        self.made.write(name, text)

    def hello(self, name: str, image: str, start_period: str = "4s", **more: object) -> None:
        """One component `web` that answers on 8080; `more` are keys of it."""
        self.write(name, web(self.image(image), start_period=start_period, **more))

    def witness(self, name: str, image: str = "witness:1", **env: str) -> None:
        variables = {"WITNESS_COLLECTOR": self.collector(name).url, **env}
        volume = '[[components.volumes]]\nname = "book"\npath = "/data"\nprotect = "backup"\n'
        self.write(name, web(self.image(image), env=variables) + volume)

    def gone(self, name: str) -> None:
        self.made.gone(name)

    # ---- what is there

    def containers(self, service: str = "") -> list[Running]:
        """All at one moment: one that goes while podman is asked for details means asking again."""
        for _ in range(20):
            listed = json.loads(self.podman("ps", "--all", "--format", "json") or "[]")
            ids = [each["Id"] for each in listed if not service or (each["Labels"] or {}).get(LABEL) == service]
            done = self._enter("podman", "inspect", "--type", "container", *ids) if ids else None
            if done is None or done.returncode == 0:
                found = json.loads(done.stdout) if done is not None else []
                return sorted(map(_running, found), key=lambda one: one.started_s)
            assert "no such container" in done.stderr, done.stderr
        raise AssertionError("containers come and go all the time")

    def running(self, service: str) -> list[Running]:
        """Its containers that run now; for conditions of a wait, in which `one` would fail too early."""
        return [each for each in self.containers(service) if each.running]

    def one(self, service: str) -> Running:
        """The only container of that service, which runs."""
        (found,) = self.containers(service)
        assert found.running, found
        return found

    def events(self, since_s: float) -> list[Happened]:
        said = self.podman("events", "--stream=false", "--since", str(int(since_s)), "--format", "json")
        found = [json.loads(line) for line in said.splitlines() if line]
        told = [Happened(stamp(each["Time"]), each["Status"], each["ID"]) for each in found if "ID" in each]
        return sorted((each for each in told if each.at_s >= since_s), key=lambda each: each.at_s)

    def answer(self, container: Running, path: str = "/") -> str:
        """What it says on its published port, asked on its node: nobody else reaches it there (M-04)."""
        said = self._ask(container, path)
        assert said.returncode == 0, said.stderr
        return said.stdout

    def answers(self, container: Running) -> bool:
        return self._ask(container, "/").returncode == 0

    def _ask(self, container: Running, path: str) -> subprocess.CompletedProcess[str]:
        door = next(outside for inside, outside in container.ports if inside == 8080)
        return self._enter("curl", "--silent", "--show-error", "--fail", "--max-time", "5", f"http://{door}{path}")

    def data(self, service: str, volume: str) -> Path:
        """A volume as the host sees it."""
        return Path(self.made.node(NODE)["dirs"]["data"]) / service / volume

    def status(self) -> str:
        return self.run("status").ok().out

    def findings(self, *codes: str) -> list[dict[str, Any]]:
        listed = self.run("status", "--json").ok().json["findings"]
        return [each for each in listed if each["code"] in codes]

    # ---- the witness

    def sequence(self, service: str) -> set[int]:
        lines = (self.data(service, "book") / "sequence").read_text().splitlines()
        return {int(line.split()[0]) for line in lines if line}

    def collector(self, service: str) -> Collector:
        """One for each witness: their numbers are their own."""
        if service not in self._collectors:
            self._collectors[service] = Collector(self.host)
        return self._collectors[service]

    def lost(self, service: str) -> set[int]:
        """Numbers that were reported and are not on the disk."""
        told = {seq for _, _, seq in list(self.collector(service).heard)}
        return told - self.sequence(service)

    # ---- somebody else's

    def plant_foreign(self) -> None:
        """A container that is nobody's business here; `foreign_untouched` is asked after every test."""
        self.podman("pull", "--quiet", self.image("hello:1"))
        self.podman("run", "--quiet", "--detach", "--name", FOREIGN, "--label", "who=somebody", self.image("hello:1"))
        self._foreign = self._find_foreign()

    def _find_foreign(self) -> tuple[str, int, float]:
        (found,) = [each for each in self.containers() if each.name == FOREIGN]
        return found.identity

    def foreign_untouched(self) -> bool:
        return self._find_foreign() == self._foreign

    # ---- the agent

    @property
    def agent_pid(self) -> int:
        return int(self.made.node(NODE)["pids"]["agent"])

    def kill_agent(self) -> None:
        self.made.lab("kill", NODE, "--agent").ok()

    def start_agent(self) -> None:
        self.made.lab("start", NODE).ok()

    @contextmanager
    def meddled(self, *faults: str) -> Iterator[Meddler]:
        """The running agent meets these faults, as strace writes them, until the end of the block."""
        meddler = Meddler(self.agent_pid, self.made.home / "strace.log", faults)
        try:
            yield meddler
        finally:
            meddler.leave()

    @contextmanager
    def killing_at_event(self, n: int) -> Iterator[EventKiller]:
        """The running agent dies when podman tells of the n-th thing that happens to any container from now on."""
        words = [*lab_node.entering(self._init), "podman", "events", "--since", "0s", "--format", "json"]
        killer = EventKiller(self.agent_pid, n, words, {**self.env, **podman_files.variables()})
        try:
            wait_until(lambda: self._is_heard(killer), "podman tells of what happens")
            yield killer
        finally:
            killer.leave()

    def _is_heard(self, killer: EventKiller) -> bool:
        """Something happens that is none of the agent's business; podman takes a while to begin telling."""
        self.podman("volume", "create", "listening")
        self.podman("volume", "rm", "listening")
        return killer.hears()


class EventKiller:
    """Kills at steps that leave no trace in the journal: between two calls of the runtime."""

    def __init__(self, pid: int, n: int, words: Sequence[str], env: Mapping[str, str]) -> None:
        self.pid = pid
        self.at = ""  # what had just happened
        self._left = n
        self._hears = False
        self._events = subprocess.Popen(
            words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        assert self._events.stdout is not None
        for line in self._events.stdout:
            if not line.endswith("\n"):  # podman was killed while it wrote
                return
            told = json.loads(line)
            self._hears = True
            self._left -= told["Type"] == "container"
            if self._left == 0:
                self.at = str(told["Status"])
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                return

    def hears(self) -> bool:
        return self._hears

    def has_killed(self) -> bool:
        return bool(self.at) and not is_alive(self.pid)

    def leave(self) -> None:
        os.killpg(self._events.pid, signal.SIGKILL)  # podman is a child of what entered the node
        self._events.wait(60)
        self._thread.join(60)
        assert not self._thread.is_alive() and self._events.stdout is not None
        self._events.stdout.close()
        if self.at:
            wait_until(self.has_killed, "the agent is dead")


class Meddler:
    """strace on a running process; it leaves that process as it found it, unless it killed it."""

    def __init__(self, pid: int, log: Path, faults: Sequence[str]) -> None:
        self.pid, self._log = pid, log
        calls = ",".join(dict.fromkeys(fault.partition(":")[0] for fault in faults))
        words = ["strace", "-f", "-qq", "-e", "signal=none", "-o", str(log), "-e", f"trace={calls}"]
        words += [word for fault in faults for word in ("-e", f"inject={fault}")]
        self._tracer = subprocess.Popen([*words, "-p", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._is_there, "strace holds the agent")

    def _is_there(self) -> bool:
        """Not yet, if a thread ends meanwhile."""
        tasks = Path(f"/proc/{self.pid}/task")
        try:
            return all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks.iterdir())
        except (FileNotFoundError, ProcessLookupError):
            return self.has_killed()

    def has_killed(self) -> bool:
        return not is_alive(self.pid)

    def seen(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines() if self._log.exists() else []

    def leave(self) -> None:
        """Of a process that died under it strace does not always let go by itself."""
        self._tracer.terminate()
        try:
            self._tracer.wait(1 if self.has_killed() else 10)
        except subprocess.TimeoutExpired:
            self._tracer.kill()
            self._tracer.wait(60)


def is_alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def web(image: str, *, start_period: str = "4s", env: object = None, **more: object) -> str:
    """The file of a service with one component, `web`, on 8080. `more` are further keys of that component."""
    lines = [f'node = "{NODE}"', "", "[[components]]", 'name = "web"', f'image = "{image}"']
    lines += [f"{key} = {json.dumps(value)}" for key, value in more.items()]
    if isinstance(env, Mapping):
        lines.append("env = { " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items()) + " }")
    lines += [f'health = {{ type = "http", path = "/health", port = 8080, start_period = "{start_period}" }}']
    lines += ["", "[[components.routes]]", 'name = "http"', "port = 8080", "", ""]
    return "\n".join(lines)


@contextmanager
def deploy_scene(room: Path, name: str = "deploy") -> Iterator[DeployScene]:
    """Two nodes in fast motion with a foreign container on the one that works; taken away without a trace."""
    with lab(room, nodes=NODES, name=name) as made:
        scene = DeployScene(made)
        try:
            made.alert(scene.ear.url)
            made.lab("fast").ok()
            scene.plant_foreign()
            yield scene
        finally:
            scene.close()


def _running(found: Mapping[str, Any]) -> Running:
    state, labels = found["State"], found["Config"]["Labels"] or {}
    bindings = found["NetworkSettings"]["Ports"] or {}
    ports = tuple(
        (int(inside.partition("/")[0]), f"{each['HostIp']}:{each['HostPort']}")
        for inside, outside in bindings.items()
        for each in outside or ()
    )
    return Running(
        found["Id"], found["Name"], labels.get(LABEL, ""), labels.get("holdfast.component", ""),
        state["Status"] == "running" and state["Pid"] > 0, int(state["Pid"]), stamp(state["StartedAt"]),
        stamp(state["FinishedAt"]), found["ImageName"], ports,
    )  # fmt: skip


def stamp(text: str) -> float:
    """2026-11-16T04:12:01.123456789Z, with more digits than Python takes; 0 for a time that never was."""
    whole, _, digits = text.rstrip("Z").partition(".")
    if whole.startswith("0001"):
        return 0.0
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{digits or 0}")
