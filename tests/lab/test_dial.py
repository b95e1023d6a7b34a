"""`link = "dial"` with real processes: the hub calls, only the pinned node is believed, everybody else has no port."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.tls.server import server_context
from holdfast.model import ssh_key
from holdfast.model.fleet import Settings
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import certificates as rules
from holdfast.wire import http_signature
from tests.fleets.ports import free_port
from tests.fleets.tls_peers import Eavesdropper
from tests.fleets.waiting import wait_until
from tests.lab.product import PYTHON, Outcome

pytestmark = pytest.mark.lab

# Of this process alone: the port is the same for every node.
D1, D2, P1 = (f"127.{first}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}" for first in (9, 10, 11))
NODES = {"d1": (D1, 'link = "dial"'), "d2": (D2, 'link = "dial"'), "p1": (P1, "")}
PORT = 9444
WINDOW_S, PROBE_S = 3.0, 1.0  # of --pace fast
_marks = iter(range(1, 1_000_000))


class Fleet:
    """One hub at a time and three agents on addresses of the loopback network, each with a state of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = ""
        self._hub_file = root / "hub.log"  # of the last one
        self.environ = {**os.environ, "HOME": str(root), "HOLDFAST_KEY": str(root / "op"), "NO_COLOR": "1"}
        for name in ("HOLDFAST_HUB", "HOLDFAST_FLEET", "SSH_AUTH_SOCK", "XDG_STATE_HOME", "NOTIFY_SOCKET"):
            self.environ.pop(name, None)

    def run(self, *words: str, stdin: str = "") -> Outcome:
        done = subprocess.run(
            [PYTHON, "-m", "holdfast", *words],
            cwd=self.root / "fleet", env=self.environ, capture_output=True, text=True, timeout=60, input=stdin,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def hub(self, port: int = 0) -> Iterator[str]:
        """Its URL. The certificate names 127.0.0.1, whichever port it is on."""
        log = self._hub_file = self.root / f"hub-{next(_marks)}.log"
        with log.open("w") as told:
            words = ("hub", "run", "--state-dir", self.root / "hub", "--listen", f"127.0.0.1:{port}", "--pace", "fast")
            process = subprocess.Popen([PYTHON, "-m", "holdfast", *words], env=self.environ, stderr=told, text=True)
        try:
            wait_until(lambda: "serving on" in log.read_text() or process.poll() is not None, "the hub serves")
            found = re.search(r"https://\S+", log.read_text())
            assert found, log.read_text()
            yield found[0]
        finally:
            process.terminate()
            process.wait(60)

    @property
    def hub_log(self) -> str:
        return self._hub_file.read_text()

    def state(self, node: str) -> Path:
        return self.root / "nodes" / node

    def log(self, node: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / f"{node}.log").read_text().splitlines()]

    def start(self, node: str) -> "subprocess.Popen[bytes]":
        places = ("--state-dir", self.state(node), "--data-dir", self.root / "srv", "--run-dir", self.root / "run")
        with (self.root / f"{node}.log").open("wb") as told:
            return subprocess.Popen(
                [PYTHON, "-m", "holdfast", "agent", "run", *places], env=self.environ, stderr=told, cwd=self.root
            )

    def present(self, node: str) -> Any:
        return json.loads((self.root / "run" / f"agent-{node}.json").read_text())

    def node(self, name: str, url: str = "") -> Any:
        hub = ("--hub", url) if url else ()
        nodes = self.run("node", "list", "--json", *hub).ok().json["nodes"]
        return next(node for node in nodes if node["name"] == name)

    def key_of(self, node: str) -> IdentityKey:
        key = key_file.load(str(self.state(node) / "node.key"))
        assert key is not None
        return key

    @property
    def id(self) -> str:
        return str(json.loads((self.state("d1") / "identity.json").read_text())["fleet"])

    def status(self, name: str, url: str = "") -> str:
        return str(self.node(name, url)["status"])

    def declare(self, **changed: str) -> None:
        """fleet.toml with these nodes' settings changed, applied."""
        text = (self.root / "base.toml").read_text() + 'overlay_cidr = "127.0.0.0/8"\n'
        text += (self.root / "rest.toml").read_text()
        for name, (address, more) in NODES.items():
            settings = changed.get(name, more)
            text += f'\n[[nodes]]\nname = "{name}"\nroles = ["worker"]\naddress = "{address}"\n{settings}\n'
        (self.root / "fleet" / "fleet.toml").write_text(text)
        self.run("apply", "--yes").ok()


def listening(pid: int) -> list[str]:
    """Local addresses at which this process accepts connections, as `ss` sees it."""
    lines = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[3] for line in lines if f"pid={pid}," in line]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Joined, and pinned by a second revision. No hub, no agent runs."""
    made = Fleet(tmp_path_factory.mktemp("dial"))
    root = made.root
    for name in ("srv", "fleet"):
        (root / name).mkdir()
    init = [PYTHON, "-m", "holdfast", "init", "fleet", "--key", str(root / "op"), "--yes", "-q"]
    subprocess.run(init, cwd=root, env=made.environ, check=True, timeout=60, capture_output=True)
    trust = made.run("validate", "--json").ok().json["trust"]
    hub_key = made.run("hub", "init", "--trust", trust, "--state-dir", str(root / "hub"), "--json").ok().json["hub_key"]
    with made.hub(free_port()) as url:  # another hub comes back to this port
        made.url = url
        text = (root / "fleet" / "fleet.toml").read_text()
        head, _, rest = text.partition('name = "fleet"\n')
        (root / "base.toml").write_text(f'{head}name = "fleet"\nhub = "{url}"\nhub_key = "{hub_key}"\n')
        (root / "rest.toml").write_text(rest)
        made.declare()
        for name in NODES:
            out = made.run("node", "invite", name).ok().out
            token = next(word for word in out.split() if word.startswith("hfj_"))
            made.run("agent", "join", "-", "--state-dir", str(made.state(name)), stdin=token).ok()
        agents = {name: made.start(name) for name in NODES}
        try:
            wait_until(lambda: all(made.status(name) == "healthy" for name in NODES), "every node is healthy")
            made.run("apply", "--yes").ok()  # records key and issuer of each
        finally:
            for process in agents.values():
                process.terminate()
                process.wait(60)
    return made


@contextmanager
def agents(fleet: Fleet, *names: str) -> Iterator["dict[str, subprocess.Popen[bytes]]"]:
    running = {name: fleet.start(name) for name in names}
    try:
        yield running
    finally:
        for process in running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        try:
            for process in running.values():
                process.wait(60)
        finally:
            for process in running.values():
                process.kill()
                process.wait(60)


# ---- health


def calls_home(fleet: Fleet) -> int:
    """Check-ins that were asked for by knocking and failed; the agent's own are told of once, with their remedy."""
    return sum(event["event"] == "hub_trouble" and "remedy" not in event for event in fleet.log("d1"))


def test_a_hub_that_starts_knows_a_dial_node_within_seconds_and_misses_it_when_it_is_frozen(fleet: Fleet) -> None:
    """M-74, M-55, C-01: this hub is on a port that no agent knows, so what it knows it has from knocking alone."""
    with agents(fleet, "d1", "p1") as running:
        wait_until(lambda: listening(running["d1"].pid) == [f"{D1}:{PORT}"], "it listens")
        with fleet.hub() as elsewhere:
            assert elsewhere != fleet.url
            wait_until(lambda: fleet.status("d1", elsewhere) == "healthy", "d1 is known", 5)
            assert fleet.status("p1", elsewhere) != "healthy"  # nobody calls it
            wait_until(lambda: calls_home(fleet) >= 2, "d1 was called at the start and after the window")
            assert fleet.status("d1", elsewhere) == "healthy"
            running["d1"].send_signal(signal.SIGSTOP)
            wait_until(lambda: fleet.status("d1", elsewhere) == "unhealthy", "d1 is missed", WINDOW_S + PROBE_S + 3)
            wait_until(lambda: "node_silent node.d1" in fleet.hub_log, "and somebody is told")


# ---- who is believed


def forged(node: str) -> tuple[bytes, bytes]:
    """Chain and key of a machine that made itself an issuer just like that node's."""
    settings = Settings("fleet")
    private = issuing.make_key()
    above = issuing.make_issuer(private, node, rules.constraints(node, ("worker",), settings), time.time())
    made = issuing.issue(above, private, [rules.listener_name(node, ("worker",), settings)], time.time())
    return made.chain, made.private


def test_an_impostor_is_not_believed_and_hears_nothing(fleet: Fleet) -> None:
    """S01, A1: the right name from another issuer, and another node's real certificate; 0 application bytes."""
    with agents(fleet, "d2") as running:
        wait_until(lambda: listening(running["d2"].pid), "it listens")
    theirs = [(fleet.state("d2") / name).read_bytes() for name in ("serving.crt", "serving.key")]
    for chain, private in (forged("d1"), theirs):
        with Eavesdropper(server_context(chain, private), place=(D1, PORT)) as impostor, fleet.hub() as elsewhere:
            impostor.settle()
            assert fleet.status("d1", elsewhere) != "healthy"
        assert bytes(impostor.heard) == b""
        assert f"the machine at {D1}:{PORT} is not proven to be d1" in fleet.hub_log


def knocked(fleet: Fleet, key: IdentityKey) -> int:
    """The status a node answers to a knock with this signature."""
    to = ssh_key.fingerprint(ssh_key.parse(fleet.key_of("d1").line))
    nonce = f"{next(_marks):021d}A=="
    proof = http_signature.sign(key, "POST", "/v1/knock", None, fleet.id, to, int(time.time()), nonce)
    careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((D1, PORT), 5) as line, careless.wrap_socket(line) as inside:
        fields = "".join(f"{name}: {value}\r\n" for name, value in proof.items())
        inside.sendall(f"POST /v1/knock HTTP/1.1\r\nHost: d1\r\nContent-Length: 0\r\n{fields}\r\n".encode())
        return int(inside.recv(4096).split()[1])


def test_a_knock_of_somebody_else_is_refused_and_audited(fleet: Fleet) -> None:
    """I-12, I-38: also one that another node of the fleet signed; the hub's own, by the same way, is heard."""
    with agents(fleet, "d1") as running:
        wait_until(lambda: listening(running["d1"].pid), "it listens")
        for somebody in (MemoryIdentityKey(b"x" * 32), fleet.key_of("d2")):
            assert knocked(fleet, somebody) == 401
        audit = [json.loads(line) for line in (fleet.state("d1") / "audit.jsonl").read_text().splitlines()]
        denied = [entry for entry in audit if "POST /v1/knock" in str(entry) and "unknown_key" in str(entry)]
        assert len(denied) == 2 and "127.0.0.1" in str(denied)
        hub = key_file.load(str(fleet.root / "hub" / "hub.key"))
        assert hub is not None and knocked(fleet, hub) == 200


# ---- who listens


def test_a_node_listens_as_the_accepted_revision_says_and_a_poll_node_does_not(fleet: Fleet) -> None:
    """H-35, contract: HTTP; opened and shut while it runs, and what cannot be bound is a finding."""
    with fleet.hub(int(fleet.url.rpartition(":")[2])), agents(fleet, "d1", "p1") as running:
        pids = {name: process.pid for name, process in running.items()}
        wait_until(lambda: listening(pids["d1"]) == [f"{D1}:{PORT}"], "it listens")
        wait_until(lambda: fleet.present("d1")["listening"], "it says where")  # as soon as it listens, not before
        assert fleet.present("d1") | {"state_dir": ""} == {
            "node": "d1", "pid": pids["d1"], "state_dir": "", "listening": f"{D1}:{PORT}",
        }  # fmt: skip
        wait_until(lambda: fleet.status("p1") == "healthy", "p1 is healthy")
        assert listening(pids["p1"]) == [] and fleet.present("p1")["listening"] == ""
        with socket.create_server((P1, PORT)):
            fleet.declare(d1="", p1='link = "dial"')
            wait_until(lambda: listening(pids["d1"]) == [], "it stopped listening")
            wait_until(lambda: "listen_failed" in fleet.run("node", "show", "p1").ok().out, "the finding is shown")
            assert fleet.status("p1") == "healthy"
        wait_until(lambda: listening(pids["p1"]) == [f"{P1}:{PORT}"], "it listens")
        wait_until(lambda: "listen_failed" not in fleet.run("node", "show", "p1").ok().out, "the finding is over")
        fleet.declare()
        wait_until(lambda: listening(pids["d1"]) == [f"{D1}:{PORT}"] and listening(pids["p1"]) == [], "both follow")
    assert list((fleet.root / "run").glob("agent-*")) == []
