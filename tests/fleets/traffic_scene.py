"""A lab with an edge and two workers under traffic: services with public names, visitors, DNS asked directly.

What a test believes comes from clients outside the fleet, from podman, DNS and /proc, never from the product under
test; `edge_status` is what the product says, to be compared with it.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from dns import exception, message, query, rdatatype

from holdfast.lab import node as lab_node
from holdfast.lab import podman_files
from tests.fleets.deploy_scene import LABEL, stamp
from tests.fleets.fault_scene import Ear
from tests.fleets.lab import LabUnderTest, command, lab, traces
from tests.fleets.load import Visitors, Wrk, trusting
from tests.lab.product import Outcome

NODES = "hub1:hub+worker,w1:worker,e1:edge"
EDGE = "e1"
ZONE, DOMAIN = "svc.lab.test", "example.test"
CALL_S = 90.0
TRUTH_S = 15.0  # how long a lie may last (issue 5)


class TrafficScene:
    def __init__(self, made: LabUnderTest, room: Path) -> None:
        self.made = made
        self.room = room
        self.env = {**made.environ, **made.variables}
        self.registry = made.registry
        self.ear = Ear(self.registry.partition(":")[0])
        self.addresses = {node["name"]: str(node["address"]) for node in made.status["nodes"]}
        self.authorities = room / "authorities.pem"

    # ---- commands

    def run(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        done = subprocess.run(
            command(*words), cwd=self.made.home, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(*words), cwd=self.made.home, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def deploy(self, name: str, *words: str) -> Outcome:
        return self.run("deploy", name, "--yes", *words)

    def inside(self, node: str, *words: str) -> str:
        init = self.pids(node)["node"]
        done = subprocess.run(
            [*lab_node.entering(init), *words],
            env={**self.env, **podman_files.variables()}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=CALL_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def curl(self, url: str, *words: str, patience_s: int = 10) -> Outcome:
        return self.made.lab("curl", url, "--max-time", str(patience_s), *words)

    def fetch(self, name: str, patience_s: float = 3.0) -> tuple[str, str]:
        """Status and body, by way of the edge over verified TLS; "closed" and "silent" are answers, too. Without curl
        and a command of ours, so that it can be asked often."""
        host = f"{name}.{DOMAIN}"
        try:
            with (
                socket.create_connection((self.addresses[EDGE], 443), timeout=patience_s) as link,
                trusting(self.trust()).wrap_socket(link, server_hostname=host) as talk,
            ):
                talk.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                reply = HTTPResponse(talk)
                reply.begin()
                return str(reply.status), reply.read().decode()
        except TimeoutError:
            return "silent", ""
        except (ConnectionError, ssl.SSLEOFError, HTTPException):
            return "closed", ""

    def answers(self, name: str) -> bool:
        return self.fetch(name)[0] == "200"

    # ---- what is wanted

    @property
    def fleet(self) -> Path:
        return self.made.dir / "fleet"

    def write(self, name: str, text: str) -> None:
        (self.fleet / "services" / f"{name}.toml").write_text(text)

    def gone(self, name: str) -> None:
        (self.fleet / "services" / f"{name}.toml").unlink()

    def hello(self, name: str, image: str, *, node: str = "w1", port: int = 8080, start_period: str = "8s") -> None:
        """A public service with one component `web`, which listens on `port`."""
        check = f'health = {{ type = "http", path = "/health", port = {port}, start_period = "{start_period}" }}'
        self.write(name, self._service(image, node, port, check, f'env = {{ SAMPLE_PORT = "{port}" }}'))

    def greeter(self, name: str, *, node: str = "w1", version: str = "1") -> None:
        check = 'health = { type = "grpc", port = 8080 }'
        more = f'env = {{ GREETER_VERSION = "{version}" }}'
        self.write(name, self._service("greeter:1", node, 8080, check, more, 'protocol = "h2c"'))

    def _service(self, image: str, node: str, port: int, check: str, more: str, route: str = "") -> str:
        lines = [f'node = "{node}"', "", "[[components]]", 'name = "web"', f'image = "{self.registry}/{image}"']
        lines += [more, check, "", "[[components.routes]]", 'name = "http"', f"port = {port}", "public = true", route]
        return "\n".join(lines) + "\n"

    # ---- what is there

    def url(self, name: str, path: str = "/") -> str:
        return f"https://{name}.{DOMAIN}{path}"

    def says(self, name: str) -> dict[str, Any]:
        """version and instance, as a visitor is told."""
        status, body = self.fetch(name)
        assert status == "200", status
        found = json.loads(body)
        assert isinstance(found, dict)
        return found

    def pids(self, node: str) -> dict[str, int]:
        return dict(self.made.node(node)["pids"])

    def doors(self, node: str, service: str) -> set[str]:
        """Where its containers are published, as podman says."""
        words = ("podman", "ps", "--filter", f"label={LABEL}={service}", "--format", "{{.Ports}}")
        return {line for line in self.inside(node, *words).splitlines() if line}

    def ended_s(self, node: str, service: str, since_s: float) -> float:
        """When the last container of that service ended, by podman's own clock."""
        words = ("--since", str(int(since_s)), "--filter", "event=died", "--filter", f"label={LABEL}={service}")
        said = self.inside(node, "podman", "events", "--stream=false", *words, "--format", "json")
        return max(stamp(json.loads(line)["Time"]) for line in said.splitlines() if line)

    def edge_status(self, hostname: str) -> dict[str, Any]:
        """What the product says of one public name; exit 1 means that something of it is broken."""
        said = self.run("edge", "status", hostname, "--json")
        assert said.code in (0, 1), said
        (found,) = [each for each in said.json["edges"] if each["hostname"] == hostname]
        return dict(found)

    def asked(self, name: str, node: str = EDGE) -> list[str] | None:
        """What a node's DNS says: addresses, [] for no such name, None if nobody answers."""
        question = message.make_query(name, rdatatype.A)
        try:
            reply = query.udp(question, self.addresses[node], timeout=1.0)
        except (OSError, exception.DNSException):
            return None
        return sorted(str(each) for answer in reply.answer if answer.rdtype == rdatatype.A for each in answer)

    # ---- traffic

    def trust(self) -> Path:
        """The authorities of the fleet, for clients outside; asked for once, for they stay the same."""
        if not self.authorities.exists():
            self.authorities.write_text(self.run("ca", "bundle").ok().out)
        return self.authorities

    def visitors(self, name: str, rate: float = 200) -> Visitors:
        """Outside the fleet, and they verify what the edge shows."""
        return Visitors(self.url(name), self.addresses[EDGE], self.trust(), rate=rate)

    def wrk(self, name: str, rate: float = 300) -> Wrk:
        return Wrk(self.url(name), self.addresses[EDGE], self.room / "wrk", rate=rate)


class Watch:
    """Looks at something all the time, beside the test; `changes` are moments and what was seen from then on."""

    def __init__(self, look: Callable[[], object], pause_s: float = 0.02) -> None:
        self.changes: list[tuple[float, object]] = []
        self._look, self._pause_s = look, pause_s
        self._over = threading.Event()
        self._looks = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.is_set():
            seen = self._look()
            self._looks += 1
            if not self.changes or self.changes[-1][1] != seen:
                self.changes.append((time.time(), seen))
            self._over.wait(self._pause_s)

    @contextmanager
    def at_work(self) -> Iterator[Watch]:
        self._thread.start()
        try:
            yield self
            looks = self._looks
            while self._looks < looks + 2 and self._thread.is_alive():  # what is true now is seen by it, too
                time.sleep(0.01)
        finally:
            self._over.set()
            self._thread.join(60)

    def first(self, wanted: object) -> float:
        """The moment from which on this was seen."""
        return next(at_s for at_s, seen in self.changes if seen == wanted)


@contextmanager
def traffic_scene(room: Path, name: str = "traffic", nodes: str = NODES) -> Iterator[TrafficScene]:
    """In fast motion, with an ear for alerts; taken away without a trace, proxies and DNS included."""
    with lab(room, nodes=nodes, name=name) as made:
        lab_id = made.id
        scene = TrafficScene(made, room)
        try:
            path = scene.fleet / "fleet.toml"
            path.write_text(f'{path.read_text()}\n[[alerts]]\nname = "ear"\napprise = "{scene.ear.url}"\n')
            scene.run("apply", "--yes").ok()
            made.lab("fast").ok()
            yield scene
        finally:
            scene.ear.close()
    assert traces(made.dir, lab_id) == []
