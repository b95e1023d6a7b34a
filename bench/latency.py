"""From a commit to the node that has it: how long, in a lab (issue 3: p50 ≤ 25 ms).

`python -m bench.latency --applies 40` brings up a lab, commits signed revisions one after the other by the product's
own code in this process (no interpreter starts within a measurement), and watches the node's own log, which says
"accepted" once a revision is durable there. Prints one JSON document and takes the lab away. Needs root, as labs do.

`request_ms` is from the request on its way to the hub's answer, connection and commit included. `delivery_ms` is from
the commit, which is when the hub's audit log has it or when its answer is here, whichever is earlier, until the node
has it. `total_ms` is from the request until the node has it.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.place import HOLDFAST
from holdfast.adapters.hub_link.http.hub import HttpHub
from holdfast.model.revision import Candidate, Head
from holdfast.wiring.cli import command_line

TARGET_P50_MS = 25.0
NODE = "w1"
IMAGE = "hello:1"  # of the lab's registry
PORT = 8080
WARM_APPLIES = 2
WAIT_S = 30.0
LOOK_S = 0.0005
REST_S = 0.3  # until the node holds its next question; with a spread, so that no beat falls into step


SERVICE = """\
node = "{node}"

[[components]]
name = "a"
image = "{image}"
env = {{ N = "{number}" }}
health = {{ type = "http", path = "/health", port = {port} }}
"""


@dataclass(frozen=True)
class Moments:
    """Seconds of the wall clock, which is everybody's on one machine."""

    sent_s: float
    answered_s: float
    committed_s: float  # as the hub's audit log says
    accepted_s: float


class Stopwatch:
    """Stands between the command and the hub's client, and looks at the clock on both sides."""

    def __init__(self) -> None:
        self.sent_s = self.answered_s = 0.0
        self._commit = HttpHub.commit

    def __enter__(self) -> "Stopwatch":
        watch = self

        def commit(hub: HttpHub, candidate: Candidate) -> Head:
            watch.sent_s = time.time()
            head = watch._commit(hub, candidate)
            watch.answered_s = time.time()
            return head

        HttpHub.commit = commit  # type: ignore
        return self

    def __exit__(self, *trouble: object) -> None:
        HttpHub.commit = self._commit  # type: ignore[method-assign]


class Log:
    """What the node's agent says; `accepted_s` is when the line about a revision was there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = path.stat().st_size

    def accepted_s(self, number: int) -> float:
        give_up_s = time.monotonic() + WAIT_S
        text = b""
        while time.monotonic() < give_up_s:
            if os.stat(self._path).st_size > self._read:
                seen_s = time.time()
                with open(self._path, "rb") as file:
                    file.seek(self._read)
                    text += file.read()
                self._read = os.stat(self._path).st_size
                if b'"event":"accepted","revision":%d,' % number in text:
                    return seen_s
            time.sleep(LOOK_S)
        raise SystemExit(f"{NODE} did not accept revision {number} within {WAIT_S:.0f} s")


def measure(lab: Path, registry: str, applies: int, warm: int, variables: dict[str, str]) -> list[Moments]:
    """Each apply ends when the node has done its work: a node that still works takes the next revision later."""
    dice = Random(3)
    found = []
    os.environ.update(variables, NO_COLOR="1")
    service = lab / "fleet" / "services" / "late.toml"
    with Stopwatch() as watch:
        for number in range(-warm, applies):
            service.write_text(SERVICE.format(node=NODE, image=f"{registry}/{IMAGE}", port=PORT, number=number))
            head = json.loads(_own("history", "--limit", "1", "--json"))["revisions"][0]["number"]
            time.sleep(REST_S + dice.uniform(0, 0.2))
            log = Log(lab / "logs" / f"{NODE}.agent.log")
            with ThreadPoolExecutor(1) as looking:
                seen = looking.submit(log.accepted_s, head + 1)
                _own("apply", "--yes", "--json")
                accepted_s = seen.result()
            if number >= 0:  # the first ones warm up both sides
                found.append(Moments(watch.sent_s, watch.answered_s, _committed_s(lab, head + 1), accepted_s))
    return found


def _committed_s(lab: Path, number: int) -> float:
    lines = (lab / "nodes" / "hub1" / "state" / "hub" / "audit.jsonl").read_bytes().splitlines()
    for entry in map(json.loads, reversed(lines)):
        if entry["event"].get("action") == "commit" and entry["event"].get("target") == f"revision.{number}":
            return float(entry["at_ms"]) / 1000
    raise SystemExit(f"the hub's audit log says nothing of revision {number}")


def _own(*words: str) -> str:
    """A command of the product, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command_line(words)
    if code != 0:
        raise SystemExit(f"holdfast {' '.join(words)} ended with {code}: {err.getvalue()}")
    return out.getvalue()


def figures(moments: Sequence[Moments]) -> dict[str, object]:
    def of(value: Callable[[Moments], float]) -> dict[str, float]:
        all_ms = sorted(1000 * value(one) for one in moments)
        p95 = all_ms[min(len(all_ms) - 1, int(len(all_ms) * 0.95))]
        return {"p50": round(statistics.median(all_ms), 2), "p95": round(p95, 2), "max": round(all_ms[-1], 2)}

    delivery = of(lambda one: max(0.0, one.accepted_s - min(one.answered_s, one.committed_s)))
    return {
        "applies": len(moments),
        "node": NODE,
        "request_ms": of(lambda one: one.answered_s - one.sent_s),
        "delivery_ms": delivery,
        "total_ms": of(lambda one: one.accepted_s - one.sent_s),
        "target_p50_ms": TARGET_P50_MS,
        "met": delivery["p50"] <= TARGET_P50_MS,
        "load": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applies", type=int, default=40)
    parser.add_argument("--warm", type=int, default=WARM_APPLIES, help="applies before those that are measured")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-latency-") as folder:
        lab = Path(folder) / "lab"
        named = ["--dir", str(lab)]
        try:
            subprocess.run([HOLDFAST, "lab", "up", *named], check=True, stderr=subprocess.PIPE, timeout=120)
            said = subprocess.run([HOLDFAST, "lab", "env", *named, "--json"], check=True, stdout=subprocess.PIPE)
            found = subprocess.run([HOLDFAST, "lab", "status", *named, "--json"], check=True, stdout=subprocess.PIPE)
            registry = json.loads(found.stdout)["registry"]
            result = figures(measure(lab, registry, args.applies, args.warm, json.loads(said.stdout)))
        finally:
            subprocess.run([HOLDFAST, "lab", "down", *named], check=True, stderr=subprocess.PIPE, timeout=60)
    print(json.dumps(result, indent=2))
    return 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
