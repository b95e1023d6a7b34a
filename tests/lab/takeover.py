"""Take over a running lab of an older commit with the code of this checkout, and compare the fleet before and after.

    .venv/bin/python tests/lab/takeover.py OLD_CHECKOUT

OLD_CHECKOUT is a checkout of the older commit in which `make setup` has run. Needs root, takes some minutes, and is not
collected by pytest. The old code makes a lab in a temporary directory and deploys services with data, secrets, a public
and an internal route, and a failover list. An order is queued for a node whose agent is dead. Then the hub and all
agents of the old code are killed, and those of this checkout are started on the same lab.

Checked: every container, proxy and DNS server is the same process as before (except the container that the queued order
restarts); nothing is parked but that order, if the older commit signed it in an older format; there is no new finding;
every service is as applied; no public request fails; data and secrets are readable; `plan` has no changes; the order
runs once, signed again if need be; ledger and audit logs verify; a deploy works.

Exit 0 with a summary, 1 with a list of what differs. The lab is removed in both cases.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from tests.fleets.checklist import Checklist  # noqa: E402
from tests.fleets.deploy_scene import LABEL  # noqa: E402
from tests.fleets.lab import LabUnderTest, traces  # noqa: E402
from tests.fleets.load import Visitors  # noqa: E402
from tests.lab.product import PYTHON, Outcome  # noqa: E402

SITES = ("hub1", "w1", "w2", "e1")
NODES = "hub1:hub+worker,w1:worker,w2:worker,e1:edge"
HUB_STATE = "/var/lib/holdfast/hub"
CALL_S = 400.0
QUIET_S = 20.0  # after the takeover has settled, nothing may change for so long
VISITS_PER_S = 40.0
ORDERED = "late"  # the service that the queued order restarts
FILE_SECRET, ENV_SECRET = "the value of a file", "the value of a variable"

SERVICES = {
    "book": """node = "w1"

[[components]]
name = "book"
image = "REGISTRY/witness:1"
health = { type = "tcp", port = 8080, start_period = "60s" }

[[components.volumes]]
name = "pages"
path = "/data"
protect = "backup"
""",
    "vault": """node = "w2"

[[components]]
name = "web"
image = "REGISTRY/hello:1"
secrets = ["paper", { name = "spoken", env = "SPOKEN" }]
health = { type = "http", path = "/health", port = 8080, start_period = "60s" }
""",
    "shop": """node = "w1"

[[components]]
name = "web"
image = "REGISTRY/hello:1"
health = { type = "http", path = "/health", port = 8080, start_period = "60s" }

[[components.routes]]
name = "http"
port = 8080
public = true
""",
    "inner": """node = "w2"

[[components]]
name = "web"
image = "REGISTRY/hello:1"
health = { type = "http", path = "/health", port = 8080, start_period = "60s" }

[[components.routes]]
name = "http"
port = 8080
""",
    "spare": """node = "w1"
failover = ["hub1"]

[[components]]
name = "web"
image = "REGISTRY/hello:1"
health = { type = "http", path = "/health", port = 8080, start_period = "60s" }
""",
    ORDERED: """node = "w2"

[[components]]
name = "web"
image = "REGISTRY/hello:1"
health = { type = "http", path = "/health", port = 8080, start_period = "60s" }
""",
}
PUBLIC_URL = "https://shop.example.test/"
INTERNAL_URL = "https://web.inner.svc.lab.test/"


@dataclass(frozen=True)
class Container:
    node: str
    service: str
    id: str
    pid: int
    started: str


@dataclass(frozen=True)
class Seen:
    """The fleet at one moment. Containers by podman, processes by /proc, the rest by the command line."""

    containers: frozenset[Container]
    kept: Mapping[str, int]  # proxies and DNS servers, which outlive their agents
    ps: list[dict[str, Any]]
    status: dict[str, Any]
    nodes: Mapping[str, dict[str, Any]]  # `node show` of each

    @property
    def parked(self) -> dict[str, list[Any]]:
        return {name: node["parked"] for name, node in self.nodes.items() if node["parked"]}

    @property
    def findings(self) -> set[str]:
        """Of the fleet and, as `node show` has them, of each node."""
        own = {f"{name}: {_finding(one)}" for name, node in self.nodes.items() for one in node["findings"]}
        return {_finding(one) for one in self.status["findings"]} | own

    @property
    def heads(self) -> dict[str, Any]:
        accepted = {node["name"]: node["accepted"] for node in self.status["nodes"]}
        return {"serving": self.status["serving"], "head": self.status["head"], "accepted": accepted}

    @property
    def is_healthy(self) -> bool:
        return self.status["ready"] and all(node["status"] == "healthy" for node in self.status["nodes"])


def _finding(one: Mapping[str, Any]) -> str:
    return " ".join(str(one[key]) for key in ("level", "code", "address") if one.get(key))


def containers(lab: LabUnderTest) -> frozenset[Container]:
    found = set()
    for node in SITES:
        ids = lab.enter(node, "podman", "ps", "--all", "--quiet", "--no-trunc").ok().out.split()
        for one in json.loads(lab.enter(node, "podman", "inspect", *ids).ok().out) if ids else ():
            service = (one["Config"]["Labels"] or {}).get(LABEL, "")
            found.add(Container(node, service, one["Id"], one["State"]["Pid"], one["State"]["StartedAt"]))
    return frozenset(found)


def look(lab: LabUnderTest) -> Seen:
    kept = {
        f"{node['name']}.{part}": pid
        for node in lab.status["nodes"]
        for part, pid in node["pids"].items()
        if part not in ("node", "agent", "hub")
    }
    return Seen(
        containers=containers(lab),
        kept=kept,
        ps=lab.run("ps", "--json").ok().json["services"],
        status=lab.run("status", "--json").ok().json,
        nodes={name: lab.run("node", "show", name, "--json").ok().json for name in SITES},
    )


def steady(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `ps` without what changes with time; the ordered service starts again."""
    left_out = {"age_s"} | ({"pid", "started", "started_s", "restarts"} if row["name"] == ORDERED else set())
    return {key: value for key, value in row.items() if key not in left_out}


class Takeover(Checklist):
    def __init__(self, room: Path, old_python: str) -> None:
        super().__init__()
        home = room / "home"
        home.mkdir()
        unset = {"PYTHONPATH": ""}  # each interpreter runs the code of its own checkout
        self.room = room
        self.old = LabUnderTest(room / "lab", home, unset, old_python)
        self.new = LabUnderTest(room / "lab", home, unset, PYTHON)
        self.is_old_format = False

    # ---- the old code

    def found(self) -> None:
        self.old.lab("up", "--nodes", NODES, timeout_s=CALL_S).ok()
        self.note("the lab of the old code is up")
        for name, value in (("paper", FILE_SECRET), ("spoken", ENV_SECRET)):
            path = self.room / name
            path.write_text(value)
            # A secret is sealed to the nodes of the services that name it, so those are declared first.
            self._declare("vault")
            self.old.run("secret", "set", name, "--file", str(path), timeout_s=CALL_S).ok()
        for name in SERVICES:
            self._declare(name)
        self.old.run("apply", "--yes", timeout_s=CALL_S).ok()
        self.wait(lambda: self._fetch(self.old, PUBLIC_URL).code == 0, f"{PUBLIC_URL} answers")
        self.wait(lambda: self._fetch(self.old, INTERNAL_URL).code == 0, f"{INTERNAL_URL} answers")
        self.note("the old code has deployed every service")

    def _declare(self, name: str, **replaced: str) -> None:
        text = SERVICES[name].replace("REGISTRY", self.old.registry)
        for before, after in replaced.items():
            text = text.replace(before, after)
        self.old.write(name, text)

    def _fetch(self, lab: LabUnderTest, url: str) -> Outcome:
        return lab.lab("curl", url, "--max-time", "30")

    def queue(self) -> str:
        """The id of the order."""
        self.old.lab("kill", "w2", "--agent").ok()
        words = ("--node", "w2", "--action", "restart", "--target", f"service.{ORDERED}", "--expires", "2h")
        self.old.run("order", "sign", *words, "--submit", "--yes", timeout_s=CALL_S).ok()
        (order,) = self.orders(self.old)
        self.check(order["state"] == "waiting", "the order is queued", order)
        self.is_old_format = "sign_again" not in order  # a release before orders named a life
        return str(order["id"])

    def orders(self, lab: LabUnderTest) -> list[dict[str, Any]]:
        return [one for one in lab.run("order", "list", "--json").ok().json["orders"] if one["action"] == "restart"]

    # ---- the change

    def change(self) -> None:
        self.old.lab("kill", "hub").ok()
        for node in SITES:
            if node != "w2":  # dead already
                self.old.lab("kill", node, "--agent").ok()
        self.note("hub and agents of the old code are dead")
        self.new.lab("start", "hub", timeout_s=CALL_S).ok()
        for node in SITES:
            self.new.lab("start", node, timeout_s=CALL_S).ok()
        self.note("hub and agents of this checkout are started")

    def runs_this_checkout(self) -> None:
        of = str(Path(PYTHON).parent)
        pids = {f"{one['name']}.agent": one["pids"].get("agent") for one in self.new.status["nodes"]}
        pids["hub"] = next(one["pids"]["hub"] for one in self.new.status["nodes"] if one["name"] == "hub1")
        foreign = {
            name: pid for name, pid in pids.items() if pid is None or of not in Path(f"/proc/{pid}/cmdline").read_text()
        }
        self.check(not foreign, f"hub and agents run from {of}", foreign)

    # ---- comparisons

    def compare(self, before: Seen, after: Seen) -> None:
        old = {one for one in before.containers if one.service != ORDERED}
        new = {one for one in after.containers if one.service != ORDERED}
        self.check(old == new, f"{len(old)} containers have the same id, pid and start", (old - new, new - old))
        kept = {name: (pid, after.kept.get(name)) for name, pid in before.kept.items() if after.kept.get(name) != pid}
        self.check(not kept, f"{len(before.kept)} proxies and DNS servers have the same pid", kept)
        known = {key for row in before.ps for key in row}  # a later release may show more
        rows = [{key: value for key, value in row.items() if key in known} for row in after.ps]
        ps = ([steady(row) for row in before.ps], [steady(row) for row in rows])
        self.check(ps[0] == ps[1], "ps shows the same", [pair for pair in zip(*ps, strict=False) if pair[0] != pair[1]])
        self.check(not after.parked, "nothing is parked", after.parked)
        fresh = after.findings - before.findings
        self.check(not fresh, f"no new finding (before: {len(before.findings)})", (fresh, after.status["findings"]))
        self.check(before.heads == after.heads, "the same heads", (before.heads, after.heads))
        lost = set(before.status) - set(after.status)
        self.check(not lost, "status has every key it had", lost)

    def data(self, lab: LabUnderTest) -> str:
        return self._of_container(lab, "w1", "book", "root/data/sequence")

    def secrets(self, lab: LabUnderTest) -> tuple[str, str]:
        variables = self._of_container(lab, "w2", "vault", "environ").split("\0")
        spoken = next((one for one in variables if one.startswith("SPOKEN=")), "").removeprefix("SPOKEN=")
        return self._of_container(lab, "w2", "vault", "root/run/secrets/paper"), spoken

    def _of_container(self, lab: LabUnderTest, node: str, service: str, path: str) -> str:
        words = ("podman", "ps", "--quiet", "--filter", f"label={LABEL}={service}")
        (name,) = lab.enter(node, *words).ok().out.split()
        pid = lab.enter(node, "podman", "inspect", "--format", "{{.State.Pid}}", name).ok().out.strip()
        return lab.enter(node, "cat", f"/proc/{pid}/{path}").ok().out

    def ran_once(self, order: str, since_s: float, began: frozenset[Container]) -> None:
        (one,) = self.orders(self.new)
        if self.is_old_format:
            is_refused = (one["state"], one["result"]["code"], one["sign_again"]) == (
                "refused",
                "order_format_old",
                True,
            )
            self.check(one["id"] == order and is_refused, "the queued order is listed as sign again", one)
            self._exits_0("the order is signed again", self.new.run("restart", ORDERED, "--yes", timeout_s=CALL_S))
        else:
            self.check(one["id"] == order and one["state"] == "done", "the queued order is done", one)
        words = ("podman", "events", "--stream=false", "--since", str(int(since_s)), "--filter", "event=start")
        started = self.new.enter("w2", *words, "--filter", f"label={LABEL}={ORDERED}", "--format", "json").ok().out
        self.check(len(started.splitlines()) == 1, "the ordered service was started once", started)
        same = [one for one in began & containers(self.new) if one.service == ORDERED]
        self.check(not same, "the ordered service has another process", same)

    def verifies(self) -> None:
        words = (PYTHON, "-m", "holdfast", "hub", "check", "--state-dir", HUB_STATE)
        self._exits_0("hub check", self.new.enter("hub1", *words, timeout_s=CALL_S))
        self._exits_0("audit --verify", self.new.run("audit", "--verify", timeout_s=CALL_S))
        for node in SITES:
            audit = self.new.run("audit", "--verify", "--node", node, timeout_s=CALL_S)
            self._exits_0(f"audit --verify --node {node}", audit)
            check = self.new.enter(node, PYTHON, "-m", "holdfast", "agent", "check", timeout_s=CALL_S)
            self._exits_0(f"agent check on {node}", check)

    def _exits_0(self, what: str, outcome: Outcome) -> None:
        self.check(outcome.code == 0, what, outcome)

    def plan(self) -> None:
        planned = self.new.run("plan", timeout_s=CALL_S)
        self.check(planned.code == 0 and "No changes" in planned.out + planned.err, "plan has no changes", planned)

    def deploy(self) -> None:
        """The last check: it replaces containers. The secrets are opened again by the new code."""
        self._declare("shop", **{"hello:1": "hello:2"})
        self._exits_0("deploy of shop", self.new.run("deploy", "shop", "--yes", timeout_s=CALL_S))
        said = self._fetch(self.new, PUBLIC_URL)
        self.check('"version":"2"' in said.out, "the public route answers from the new version", said)
        self._declare("vault", **{"hello:1": "hello:2"})
        self._exits_0("deploy of vault", self.new.run("deploy", "vault", "--yes", timeout_s=CALL_S))
        secrets = self.secrets(self.new)
        self.check(secrets == (FILE_SECRET, ENV_SECRET), "the new container of vault has its secrets", secrets)

    # ---- all of it

    def run(self) -> None:
        """After `found`."""
        self.wait(lambda: look(self.old).is_healthy, "every node is healthy")
        before = look(self.old)
        self.note(f"before: {len(before.containers)} containers, {sorted(before.kept)}, findings {before.findings}")
        self.check(len(before.containers) == len(SERVICES), "one container for each service", before.containers)
        data = self.data(self.old)
        self.check(self.secrets(self.old) == (FILE_SECRET, ENV_SECRET), "the secrets are there", self.secrets(self.old))
        authorities = self.room / "authorities.pem"
        authorities.write_text(self.old.run("ca", "bundle").ok().out)
        began_s = time.time()
        order = self.queue()
        visitors = Visitors(PUBLIC_URL, self.old.address("e1"), authorities, rate=VISITS_PER_S)
        with visitors.at_work():
            visitors.await_visits(20)
            self.change()
            self.wait(lambda: look(self.new).is_healthy, "every node is healthy with the new code")
            self.wait(lambda: self.orders(self.new)[0]["result"] is not None, "the queued order has a result")
            self.wait(lambda: not (look(self.new).findings - before.findings), "findings are as before")
            time.sleep(QUIET_S)
            visitors.await_visits(20)
        tally = visitors.tally
        failed = [(one.trouble, round(one.began_s - began_s, 1)) for one in visitors.failures[:5]]
        self.check(not tally.failed, f"no public request of {tally.asked} failed", (tally.failed, failed))
        self.runs_this_checkout()
        self.compare(before, look(self.new))
        grown = self.data(self.new)
        kept = grown.startswith(data) and len(grown) > len(data)
        self.check(kept, f"the data is kept ({len(data)} bytes) and grows ({len(grown)} bytes)", grown[-100:])
        self.check(self.secrets(self.new) == (FILE_SECRET, ENV_SECRET), "the same secrets", self.secrets(self.new))
        self._exits_0(f"{INTERNAL_URL} answers", self._fetch(self.new, INTERNAL_URL))
        self.ran_once(order, began_s, before.containers)
        self.plan()
        self.verifies()
        self.deploy()


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: python tests/lab/takeover.py OLD_CHECKOUT", file=sys.stderr)
        return 2
    old = Path(words[0]).resolve()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=old, capture_output=True, text=True, check=True
    ).stdout.strip()
    with TemporaryDirectory(prefix="takeover.") as folder:
        takeover = Takeover(Path(folder), str(old / ".venv" / "bin" / "python"))
        takeover.note(f"old code: {old} at {commit}; new code: {ROOT}")
        lab_id = ""
        try:
            takeover.found()
            lab_id = takeover.new.id
            takeover.run()
        except AssertionError as trouble:
            takeover.check(False, "a step of this script", trouble)
        finally:
            takeover.new.lab("down", timeout_s=CALL_S).ok()
        left = traces(takeover.new.dir, lab_id) if lab_id else []
        takeover.check(not left, "nothing of the lab is left", left)
    held = f"The lab of {commit} was taken over: no container restarted, nothing is parked, no request failed."
    return takeover.exit_code(held)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
