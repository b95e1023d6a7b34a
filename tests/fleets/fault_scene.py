"""A lab with somebody who listens to its alerts, and the faults of networks that `lab cut` does not know."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.fleets.lab import CALL_S, LabUnderTest
from tests.fleets.waiting import wait_until
from tests.lab.product import IMAGE, Outcome

NODES = ("hub1", "w1", "e1")
SETTLED_S_MAX = 60.0  # as long as R08 gives them


class Ear:
    """Where Apprise posts alerts; `heard` are pairs of code and address, in the order they came.

    `look` gets the port of the process that sends, while that process waits for the answer.
    """

    def __init__(self, address: str, look: Callable[[int], None] = lambda port: None) -> None:
        self.heard: list[tuple[str, str]] = []
        ear = self

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                code, _, about = json.loads(content)["title"].partition(" ")
                look(self.client_address[1])
                ear.heard.append((code, about))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Not among the output of the tests."""

        self._server = ThreadingHTTPServer((address, 0), Hook)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"json://{address}:{self._server.server_address[1]}/"

    def about(self, node: str) -> list[str]:
        return [code for code, address in list(self.heard) if address == f"node.{node}"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


@dataclass
class FaultyFleet:
    """A lab whose faults and commands end with the test that began them."""

    made: LabUnderTest
    ear: Ear
    silent: set[str] = field(default_factory=set)  # nodes whose agent is dead on purpose, from one test to the next
    _left: list[subprocess.Popen[str]] = field(default_factory=list)

    # ---- commands

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """The test waits for it with `outcome`."""
        process = self.made.begin(*words)
        self._left.append(process)
        return process

    def outcome(self, process: subprocess.Popen[str], timeout_s: float = CALL_S) -> Outcome:
        """A command that hangs is a failure of the test, and is ended."""
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        finally:
            if process in self._left:
                self._left.remove(process)
        return Outcome(process.returncode, out, err)

    def run(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self.outcome(self.begin(*words), timeout_s)

    def inside(self, node: str, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self.run("lab", "exec", node, "--", *words, timeout_s=timeout_s)

    @property
    def under_way(self) -> frozenset[subprocess.Popen[str]]:
        return frozenset(self._left)

    def end(self, processes: frozenset[subprocess.Popen[str]]) -> None:
        for process in processes:
            process.kill()
            process.communicate()
            self._left.remove(process)

    def close(self) -> None:
        self.end(self.under_way)
        self.ear.close()

    # ---- what is wanted

    def service(self, name: str, node: str, mark: str) -> None:
        """Declared off: what is looked at here is how revisions travel, not what they run."""
        part = f'[[components]]\nname = "web"\nimage = "{IMAGE}"\nenv = {{ MARK = "{mark}" }}\n'
        text = f'node = "{node}"\nactive = false\n{part}'
        self.made.write(name, text)

    def apply(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        return self.run("apply", "--yes", "--json", *words, timeout_s=timeout_s)

    # ---- what is there

    def nodes(self) -> dict[str, Any]:
        return {entry["name"]: entry for entry in self.run("node", "list", "--json").ok().json["nodes"]}

    def statuses(self, *names: str) -> dict[str, str]:
        found = self.nodes()
        return {name: str(found[name]["status"]) for name in names}

    def status(self, node: str) -> str:
        return self.statuses(node)[node]

    def are_healthy(self) -> bool:
        return all(entry["status"] == "healthy" for entry in self.nodes().values())

    def head(self) -> dict[str, Any]:
        newest = self.run("history", "--json").ok().json["revisions"][0]
        return {"number": newest["number"], "digest": newest["digest"]}

    def agree(self, *names: str) -> bool:
        """They accepted what is applied, by a signed report that this command verified."""
        head, found = self.head(), self.nodes()
        return all(found[name]["verified"] and found[name]["accepted"] == head for name in names or NODES)

    def pid(self, node: str, part: str = "agent") -> int:
        return int(self.made.node(node)["pids"][part])

    def life(self, node: str) -> dict[str, Any]:
        """What a fault elsewhere must not change: the process, what it did, what it holds."""
        life, checked = self._look(node)
        assert checked["sound"] and not checked["unfinished"], checked
        return life

    def _look(self, node: str) -> tuple[dict[str, Any], dict[str, Any]]:
        found = self.made.node(node)
        state = ("--state-dir", f"{found['dirs']['state']}/agent", "--json")
        checking, listing = self.begin("agent", "check", *state), self.begin("agent", "journal", *state)
        checked, journal = self.outcome(checking).ok().json, self.outcome(listing).ok().json
        return {"pid": found["pids"]["agent"], "journal": journal, "revision": checked["revision"]}, checked

    def settle(self, *names: str) -> None:
        """Whatever was on its way has arrived: what is applied is accepted, and nobody is in the middle of anything.
        Only from then on a change is the work of the fault."""
        wait_until(lambda: self.agree(*names), f"{names} accepted what is applied", SETTLED_S_MAX)
        wait_until(lambda: all(self._rests(name) for name in names), f"{names} have nothing under way", SETTLED_S_MAX)

    def _rests(self, node: str) -> bool:
        life, checked = self._look(node)
        time.sleep(0.5)
        return not checked["unfinished"] and self._look(node)[0] == life

    def lives(self) -> dict[str, Any]:
        with ThreadPoolExecutor(len(NODES)) as pool:
            return dict(zip(NODES, pool.map(self.life, NODES), strict=True))

    def check_audits(self) -> None:
        verifying = [self.begin("audit", "--verify"), *(self.begin("audit", "--verify", "--node", n) for n in NODES)]
        for outcome in [self.outcome(one) for one in verifying]:
            outcome.ok()

    def stray_commands(self) -> list[str]:
        """Command lines of this lab that are neither a part of it nor the registry."""
        mark = f"HOLDFAST_STATE={self.made.variables['HOLDFAST_STATE']}".encode()
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if mark in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    # ---- faults

    @contextmanager
    def cut(self, node: str) -> Iterator[None]:
        self.made.lab("cut", node).ok()
        try:
            yield
        finally:
            self.made.lab("heal").ok()

    def mend(self) -> None:
        """As the next test expects it, however the one before ended. What runs and is whole is left as it is."""
        self.made.lab("heal").ok()
        self.made.lab("start", "hub").ok()
        for node in set(NODES) - self.silent:
            self.made.lab("start", node).ok()

    @contextmanager
    def dropping(self, node: str, *, incoming: int = 0, outgoing: int = 0) -> Iterator[None]:
        """So many of a hundred packets are lost on their way into the node, or out of it."""
        rules = "table inet fault {\n"
        for hook, way, share in (("input", "iif", incoming), ("output", "oif", outgoing)):
            if share:
                rules += f"chain {hook} {{ type filter hook {hook} priority 0; "
                rules += f'{way} != "lo" {"" if share == 100 else f"numgen random mod 100 < {share}"} drop; }}\n'
        script = self.made.home / f"{node}.nft"
        script.write_text(rules + "}\n")
        self.inside(node, "nft", "-f", str(script)).ok()
        try:
            yield
        finally:
            self.inside(node, "nft", "delete", "table", "inet", "fault").ok()

    @contextmanager
    def narrow(self, node: str, rate: str) -> Iterator[None]:
        """Both ways: out of the node at its own end of the wire, into it at the host's."""
        outer = self._outer_link(node)
        words = ("root", "tbf", "rate", rate, "burst", "4kb", "latency", "400ms")
        self.inside(node, "tc", "qdisc", "add", "dev", "eth0", *words).ok()
        subprocess.run(["tc", "qdisc", "add", "dev", outer, *words], check=True)
        try:
            yield
        finally:
            subprocess.run(["tc", "qdisc", "del", "dev", outer, "root"], check=True)
            self.inside(node, "tc", "qdisc", "del", "dev", "eth0", "root").ok()

    def _outer_link(self, node: str) -> str:
        number = self.inside(node, "cat", "/sys/class/net/eth0/iflink").ok().out.strip()
        for link in os.listdir("/sys/class/net"):
            with suppress(OSError):  # of another lab, which is taken down meanwhile
                if Path(f"/sys/class/net/{link}/ifindex").read_text().strip() == number:
                    return link
        raise AssertionError(f"nobody holds the other end of the wire of {node}")
