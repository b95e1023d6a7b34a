"""A lab with a hub, a worker and an edge, and one public service in it: where traffic is measured.

Everything that is measured is seen from the host, which is a client outside the fleet, or is told by logs and journals
of the nodes themselves.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from bench.place import HOLDFAST
from holdfast.lab import podman_files

HUB, WORKER, EDGE = "hub1", "w1", "e1"
NODES = f"{HUB}:hub+worker,{WORKER}:worker,{EDGE}:edge"
DOMAIN, ZONE = "example.test", "svc.lab.test"
SERVICE, COMPONENT, PORT = "shop", "web", 8080
IMAGES = ("hello:1", "hello:2")
COMMAND_S_MAX = 300.0
LOOK_S = 0.0005

# A name that is public no more is kept for so long while its service goes on; each round leaves one behind.
# Thousands of names together take longer than an edge has by default.
TIMEOUTS = '\n[timeouts]\nundeploy = "1s"\nedge_route = "5m"\n'


class EdgeLab:
    """Up from `with` to its end, with both images on the worker before anything is measured."""

    def __init__(self, folder: str, more: str = "") -> None:
        self.folder = folder
        self._nodes = NODES + more
        self.dir = os.path.join(folder, "lab")
        self.env = {**os.environ, **podman_files.variables(), "HOLDFAST_LAB": self.dir, "NO_COLOR": "1"}

    # ---- made and taken away

    def __enter__(self) -> "EdgeLab":
        try:
            self.lab("up", "--nodes", self._nodes)
            self.env |= json.loads(self.lab("env", "--json"))
            self.fleet = self.env["HOLDFAST_FLEET"]
            found = self._status()
            self.addresses = {name: str(node["address"]) for name, node in found.items()}
            self._state = {name: str(node["dirs"]["state"]) for name, node in found.items()}
            with open(os.path.join(self.fleet, "fleet.toml"), "a", encoding="utf-8") as file:
                file.write(TIMEOUTS)
            for image in IMAGES:
                self.inside(WORKER, "podman", "pull", "--quiet", f"{self.registry}/{image}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *trouble: object) -> None:
        self.lab("down")

    # ---- commands

    def lab(self, *words: str) -> str:
        return self._run([HOLDFAST, "lab", *words])

    def holdfast(self, *words: str) -> str:
        return self._run([HOLDFAST, *words])

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [HOLDFAST, *words], env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def inside(self, node: str, *words: str) -> str:
        """Without the half second a command line of ours would cost."""
        return self._run(["nsenter", "-t", str(self.pids(node)["node"]), "-n", "-m", "-u", "-p", "--", *words])

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            command, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, text=True, capture_output=True,
            timeout=COMMAND_S_MAX,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    # ---- what is wanted

    def write(self, image: str, hostnames: Sequence[str]) -> None:
        """The service, with one container, and one public route to it for each hostname."""
        lines = [f'node = "{WORKER}"', "[[components]]", f'name = "{COMPONENT}"', f'image = "{self.registry}/{image}"']
        lines.append(f'health = {{ type = "http", path = "/health", port = {PORT}, start_period = "8s" }}')
        for number, hostname in enumerate(hostnames):
            lines += ["[[components.routes]]", f'name = "r{number}"', f"port = {PORT}"]
            lines += ["public = true", f'hostname = "{hostname}"']
        with open(os.path.join(self.fleet, "services", f"{SERVICE}.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    # ---- what is there

    def _status(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.lab("status", "--json"))
        self.registry = str(found["registry"])
        return {node["name"]: node for node in found["nodes"]}

    def pids(self, node: str) -> Mapping[str, int]:
        """Of the node itself, its agent, its proxy and its DNS server; of the hub."""
        pids: Mapping[str, int] = self._status()[node]["pids"]
        return pids

    def data_dir(self, node: str) -> str:
        return str(self._status()[node]["dirs"]["data"])

    def container(self) -> tuple[str, int]:
        """Where the one container of the service is published on its node."""
        words = ("podman", "ps", "--filter", f"label=holdfast.service={SERVICE}", "--format", "json")
        (found,) = json.loads(self.inside(WORKER, *words))
        (port,) = found["Ports"]
        return str(port["host_ip"]), int(port["host_port"])

    # ---- moments, in seconds of the wall clock, which is everybody's on one machine

    def committed_s(self) -> float:
        """The last commit, as the hub's audit log tells it."""
        with open(os.path.join(self._state[HUB], "hub", "audit.jsonl"), "rb") as file:
            entries = [json.loads(line) for line in file.read().splitlines()[-20:]]
        return next(float(one["at_ms"]) / 1000 for one in reversed(entries) if one["event"].get("action") == "commit")

    def healthy_s(self, since_s: float) -> float:
        """When the last container that was started since then was found healthy, as the worker's journal tells it."""
        path = os.path.join(self._state[WORKER], "agent", "agent.db")
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            steps = [json.loads(bytes(body)) for (body,) in db.execute("SELECT body FROM steps")]
        finally:
            db.close()
        ends: list[float] = [
            step["at_s"] + float(step["note"].split()[1])
            for step in steps
            if step["name"].startswith("healthy ") and step["note"].startswith("done ") and step["at_s"] >= since_s
        ]
        return max(ends)

    def log(self, node: str) -> "AgentLog":
        return AgentLog(os.path.join(self.dir, "logs", f"{node}.agent.log"))

    def restart_proxies(self) -> None:
        """Their supervisors start them again, with the routes they had."""
        for node in (EDGE, WORKER):
            before = self.pids(node)["proxy"]
            os.kill(before, signal.SIGKILL)
            give_up_s = time.monotonic() + COMMAND_S_MAX
            while self.pids(node).get("proxy", before) == before:
                if time.monotonic() > give_up_s:
                    raise SystemExit(f"the proxy of {node} did not come back")
                time.sleep(0.1)

    # ---- without anybody who manages it

    def kill_managers(self) -> None:
        """The hub and every agent; proxies, DNS servers and containers stay."""
        self.lab("kill", "hub")
        for node in (HUB, WORKER, EDGE):
            self.lab("kill", node, "--agent")

    def start_managers(self) -> None:
        self.lab("start", "hub")
        for node in (HUB, WORKER, EDGE):
            self.lab("start", node)


class AgentLog:
    """What a node's agent says from now on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = os.stat(path).st_size

    def accepted_s(self) -> float:
        """When the next revision was accepted there."""
        give_up_s, text = time.monotonic() + COMMAND_S_MAX, b""
        while time.monotonic() < give_up_s:
            if os.stat(self._path).st_size > self._read:
                seen_s = time.time()
                with open(self._path, "rb") as file:
                    file.seek(self._read)
                    text += file.read()
                self._read = os.stat(self._path).st_size
                if b'"event":"accepted"' in text:
                    return seen_s
            time.sleep(LOOK_S)
        raise SystemExit("no revision was accepted")
