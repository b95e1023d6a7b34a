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

from tests.fleets.deploy_scene import LABEL, stamp
from tests.fleets.fault_scene import Ear
from tests.fleets.lab import CALL_S, LabUnderTest, lab
from tests.fleets.load import Visitors, Wrk, trusting
from tests.lab.product import Outcome

NODES = "hub1:hub+worker,w1:worker,e1:edge"
EDGE = "e1"
ZONE, DOMAIN = "svc.lab.test", "example.test"
TRUTH_S = 15.0  # how long a lie may last (issue 5)


class TrafficScene:
    def __init__(self, made: LabUnderTest, room: Path) -> None:
        self.made = made
        self.room = room
        self.registry = made.registry
        self.ear = Ear(self.registry.partition(":")[0])
        self.addresses = {node["name"]: str(node["address"]) for node in made.status["nodes"]}
        self.authorities = room / "authorities.pem"

    # ---- commands

    def run(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self.made.run(*words, timeout_s=timeout_s)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return self.made.begin(*words, output=subprocess.DEVNULL)

    def deploy(self, name: str, *words: str) -> Outcome:
        return self.run("deploy", name, "--yes", *words)

    def inside(self, node: str, *words: str) -> str:
        return self.made.enter(node, *words).ok().out

    def curl(self, url: str, *words: str, patience_s: int = 60) -> Outcome:
        return self.made.lab("curl", url, "--max-time", str(patience_s), *words)

    def fetch(self, name: str, patience_s: float = 10.0) -> tuple[str, str]:
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
        return self.made.fleet

    def write(self, name: str, text: str) -> None:
        self.made.write(name, text)

    def gone(self, name: str) -> None:
        self.made.gone(name)

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
            reply = query.udp(question, self.addresses[node], timeout=3.0)
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
    """Looks at something all the time, beside the test. `looks` are their begin, their end and what was seen.

    On a busy machine a look may take long: what it saw was true at one moment between its begin and its end.
    """

    def __init__(self, look: Callable[[], object], pause_s: float = 0.02) -> None:
        self.looks: list[tuple[float, float, object]] = []
        self._look, self._pause_s = look, pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.is_set():
            began_s = time.time()
            seen = self._look()
            self.looks.append((began_s, time.time(), seen))
            self._over.wait(self._pause_s)

    @contextmanager
    def at_work(self) -> Iterator[Watch]:
        self._thread.start()
        try:
            yield self
            looks = len(self.looks)
            while len(self.looks) < looks + 2 and self._thread.is_alive():  # what is true now is seen by it, too
                time.sleep(0.01)
        finally:
            self._over.set()
            self._thread.join(60)

    @property
    def changes(self) -> list[tuple[float, object]]:
        """Ends of looks that saw something new, and what they saw."""
        first = [at for at in range(len(self.looks)) if at == 0 or self.looks[at - 1][2] != self.looks[at][2]]
        return [(self.looks[at][1], self.looks[at][2]) for at in first]

    def first(self, wanted: object) -> float:
        """A moment at which this was true: the end of the first look that saw it."""
        return next(ended_s for _, ended_s, seen in self.looks if seen == wanted)

    def begun_after(self, moment_s: float) -> set[object]:
        """What looks saw that began after that moment."""
        return {seen for began_s, _, seen in self.looks if began_s > moment_s}


@contextmanager
def traffic_scene(room: Path, name: str = "traffic", nodes: str = NODES) -> Iterator[TrafficScene]:
    """In fast motion, with an ear for alerts; taken away without a trace, proxies and DNS included."""
    with lab(room, nodes=nodes, name=name) as made:
        scene = TrafficScene(made, room)
        try:
            made.alert(scene.ear.url)
            made.lab("fast").ok()
            yield scene
        finally:
            scene.ear.close()
