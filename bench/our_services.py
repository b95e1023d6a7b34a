"""Ours at the same work: services in a fleet directory, one command, and everything it promises on the way.

Every deploy is planned, signed, recorded by the hub, accepted and journaled by the agent, checked over HTTP until it
is healthy, and reported with the node's signature before the command ends.
"""

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import apsw

from bench.ground import OURS, PEERS, PORT, Ground

REMOVALS_MAX = 100_000
UNWATCHED_S = 1.0
LIST = ("podman", "ps", "--all", "--format", "json")
NODE_TABLE = "[[nodes]]\n"
SERVICE = """\
node = "{node}"

[[components]]
name = "web"
image = "{image}"
health = {{ type = "http", path = "/health", port = {port} }}

[[components.routes]]
name = "http"
port = {port}
"""


class OurServices:
    name = "holdfast"

    def __init__(self, ground: Ground, containers: int) -> None:
        self._ground, self._count = ground, containers
        self.agent_took_s: list[float] = []  # of each deploy, without command, hub and wire
        self._services = os.path.join(ground.env["HOLDFAST_FLEET"], "services")
        self._log = os.path.join(ground.dir, "logs", f"{OURS}.agent.log")
        path = os.path.join(ground.env["HOLDFAST_FLEET"], "fleet.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("[fleet]\n", f"[fleet]\nremovals_max = {REMOVALS_MAX}\n", 1)
        head, *nodes = text.split(NODE_TABLE)
        text = NODE_TABLE.join([head, *(node for node in nodes if f'name = "{PEERS}"' not in node)])
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        # The node of the peers leaves the fleet: its agent is off, and every apply would wait for it.
        self._apply("--allow-removals", "1")

    def resize(self, containers: int) -> None:
        """For the next deploy; nothing may be deployed."""
        self._count = containers

    # ---- the four things that are measured, or cleared up

    def deploy(self) -> None:
        for number in range(self._count):
            self._write(number, 0)
        with ThreadPoolExecutor(1) as looking:
            accepted_s = looking.submit(self._accepted_s, os.stat(self._log).st_size)
            self._apply()
        self.agent_took_s.append(max(self._step_ends_s()) - accepted_s.result())

    def noop(self) -> None:
        self._apply()

    def change(self) -> None:
        self._write(0, 1)
        self._apply()

    def clear(self) -> None:
        for name in os.listdir(self._services):
            os.unlink(os.path.join(self._services, name))
        self._apply("--allow-removals", str(self._count))
        wait_until(lambda: not self.containers(), 60, "every container is gone")

    def _write(self, number: int, version: int) -> None:
        with open(os.path.join(self._services, f"b{number}.toml"), "w", encoding="utf-8") as file:
            file.write(SERVICE.format(node=OURS, image=self._ground.images[version], port=PORT))

    def _apply(self, *words: str) -> None:
        self._ground.holdfast("apply", "--yes", *words)

    # ---- what is there

    def containers(self) -> list[dict[str, Any]]:
        said = self._ground.inside(OURS, *LIST)
        found: list[dict[str, Any]] = json.loads(said or "[]")
        return [each for each in found if "holdfast.service" in (each["Labels"] or {})]

    def agent_pid(self) -> int:
        nodes = json.loads(self._ground.lab("status", "--json"))["nodes"]
        return int(next(node["pids"]["agent"] for node in nodes if node["name"] == OURS))

    # ---- what the agent alone took: from accepting the revision until the last step, as its log and journal tell

    def _step_ends_s(self) -> list[float]:
        """A step is kept with the moment it began and a note that opens with its outcome and the seconds it took."""
        path = os.path.join(self._ground.nodes[OURS]["dirs"]["state"], "agent", "agent.db")
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            steps = [json.loads(bytes(body)) for (body,) in db.execute("SELECT body FROM steps")]
        finally:
            db.close()
        return [step["at_s"] + float(step["note"].split()[1]) for step in steps if step["note"].startswith("done ")]

    def _accepted_s(self, since: int) -> float:
        give_up_s = time.monotonic() + 60
        while time.monotonic() < give_up_s:
            if os.stat(self._log).st_size > since:
                seen_s = time.time()
                with open(self._log, "rb") as file:
                    file.seek(since)
                    if b'"event":"accepted"' in file.read():
                        return seen_s
            time.sleep(0.005)
        raise SystemExit(f"{OURS} accepted nothing")


class Healing:
    """What happens to a container that is ended from outside; seconds, by podman's own times of it."""

    def __init__(self, ground: Ground, ours: OurServices) -> None:
        self._ground, self._ours = ground, ours

    def crash_s(self, node: str, number: int) -> float:
        """kill -9 of the process until it runs again: podman's own policy, on our node and on the peers'. Each time
        another container: podman restarts one five times at most."""
        found = sorted(json.loads(self._ground.inside(node, *LIST)), key=lambda each: str(each["Id"]))
        one = found[number % len(found)]
        said = self._ground.inside(node, "sh", "-c", f"date +%s.%N; kill -9 {one['Pid']}")
        time.sleep(UNWATCHED_S)  # `podman inspect` takes the same locks
        return _stamp_s(self._again(node, one)["StartedAt"]) - float(said)

    def stopped_s(self) -> float:
        """Stopped by hand, which podman leaves so, until the agent started it.

        `podman stop` fails when the agent starts the container while podman still cleans up after the stop.
        """
        one = self._ours.containers()[0]
        self._ground.inside(OURS, "sh", "-c", f"podman stop {one['Id']} || true")
        state = self._again(OURS, one)
        return _stamp_s(state["StartedAt"]) - _stamp_s(state["FinishedAt"])

    def noticed_s(self) -> float:
        """Taken away by hand until the agent had the next one made: how long drift goes unnoticed."""
        known = {each["Id"]: each for each in self._ours.containers()}
        lost = next(iter(known))
        since = str(int(time.time()))
        self._ground.inside(OURS, "podman", "rm", "--force", "--time", "0", lost)
        wait_until(lambda: len(self._running()) == len(known), 60, "another one runs")
        (new,) = {each["Id"] for each in self._ours.containers()} - known.keys()
        words = ["podman", "events", "--stream=false", "--since", since, "--format", "json"]
        told = [json.loads(line) for line in self._ground.inside(OURS, *words).splitlines() if line]
        gone_s, made_s = (
            next(_stamp_s(each["Time"]) for each in told if each.get("ID") == id and each["Status"] == what)
            for id, what in ((lost, "remove"), (new, "create"))
        )
        return made_s - gone_s

    def _again(self, node: str, one: dict[str, Any]) -> dict[str, Any]:
        """Its state, once it runs with another process."""

        def state() -> dict[str, Any]:
            said = json.loads(self._ground.inside(node, "podman", "container", "inspect", one["Id"]))
            found: dict[str, Any] = said[0]["State"]
            return found

        wait_until(lambda: state()["Pid"] not in (0, one["Pid"]), 60, "it runs again")
        return state()

    def _running(self) -> list[dict[str, Any]]:
        return [each for each in self._ours.containers() if each["State"] == "running"]


def _stamp_s(text: str) -> float:
    """2026-11-16T04:12:01.123456789Z, with more digits than Python takes."""
    whole, _, digits = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{digits or 0}")


def wait_until(true: Callable[[], bool], patience_s: float, why: str) -> None:
    give_up_s = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > give_up_s:
            raise SystemExit(f"not within {patience_s:.0f} s: {why}")
        time.sleep(0.01)
