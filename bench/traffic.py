"""Traffic through an edge, in a lab: how fast a change is served, what it costs visitors, and what two hops cost.

`python -m bench.traffic` brings up a lab (hub, worker, edge), measures from outside of it, prints a table and one JSON
document, and takes the lab away. Needs root, as labs do. `--only` takes one part: served, updates, hops, dead, many.

A change is timed from the commit, as the hub's audit log tells it, and from the start of the command, until the first
answer under the new name. Throughput is ours beside two Envoys configured by hand in the same namespaces, in turns.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from bench.edge_client import Newcomer, Regular
from bench.edge_lab import DOMAIN, EDGE, IMAGES, WORKER, EdgeLab
from bench.figures import Figure, document, table
from bench.proxy import cpu_us
from bench.two_hops import PORT, SAME_PORT, TwoHops
from bench.wrk import Run, Wrk

COMMITTED_MS_MAX, HEARD_MS_MAX, COMMANDED_MS_MAX = 80.0, 100.0, 500.0
RATE = 2_000.0
THROUGHPUT_MIN = 0.9
COST_RATIO_MAX = 1.10
MANY_S_MAX = {200: 0.3, 2000: 1.0}  # by the number of other routes
REST_S = 1.5  # until the name of the round before is gone, and the agents rest
HOME = f"home.{DOMAIN}"  # a name that stays
COMMAND_S_MAX = 300.0


@dataclass(frozen=True)
class Effort:
    rounds: int
    updates: int
    hop_rounds: int
    hop_s: int
    many: int
    warm_rounds: int = 1


FULL = Effort(15, 5, 7, 6, 200)
QUICK = Effort(4, 2, 2, 3, 40)
SMALLEST = Effort(1, 1, 1, 1, 2, warm_rounds=0)


# ---- a change until it is served -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Seconds of the wall clock, and what the edge says its own steps took."""

    began_s: float
    committed_s: float
    accepted_s: float
    served_s: float
    steps: Mapping[str, float]
    others: Mapping[int, int]  # statuses other than 200 under the new name before it was served


def change(lab: EdgeLab, hostname: str, *others: str) -> Change:
    """The service gets another public name, beside those that stay."""
    lab.write(IMAGES[0], [*others, hostname])
    time.sleep(REST_S)
    log, newcomer = lab.log(EDGE), Newcomer(lab.addresses[EDGE], hostname)
    with ThreadPoolExecutor(2) as looking:
        served, accepted = looking.submit(newcomer.served_s), looking.submit(log.accepted_s)
        began_s = time.time()
        said = _ended(lab, "apply", "--yes", "--json")
        at_s = served.result(), accepted.result()
    told = next(one for one in said["services"][0]["edge"] if one["hostname"] == hostname)
    steps = {step["name"]: float(step["took_s"]) for step in told["steps"]}
    return Change(began_s, lab.committed_s(), at_s[1], at_s[0], steps, newcomer.others)


def _ended(lab: EdgeLab, *words: str) -> Any:
    command = lab.begin(*words)
    out, err = command.communicate(timeout=COMMAND_S_MAX)
    if command.returncode != 0:
        raise SystemExit(f"holdfast {' '.join(words)} ended with {command.returncode}: {err}")
    return json.loads(out)


def served(lab: EdgeLab, rounds: int, warm_rounds: int) -> Iterator[Figure]:
    """The name of a running service changes: another certificate, another route on the edge, another on the worker."""
    changes = []
    for number in range(warm_rounds + rounds):
        changes.append(change(lab, f"n{number}.{DOMAIN}", HOME))
        _say(_told(changes[-1]))
    changes = changes[warm_rounds:]
    committed = [1000 * (one.served_s - one.committed_s) for one in changes]
    commanded = [1000 * (one.served_s - one.began_s) for one in changes]
    wrong = sum(sum(one.others.values()) for one in changes)
    note = f"{rounds} rounds, max {max(committed):.0f}; {_legs(changes)}"
    yield Figure(
        "commit → served on the edge, p50", "ms", statistics.median(committed), None, COMMITTED_MS_MAX, note=note
    )
    note = f"max {max(commanded):.0f}"
    yield Figure("command → served, p50", "ms", statistics.median(commanded), None, COMMANDED_MS_MAX, note=note)
    yield Figure("answers under a new name that were not 200", "", float(wrong), target=0.0)


def _told(one: Change) -> str:
    steps = ", ".join(f"{name} {1000 * took_s:.0f}" for name, took_s in one.steps.items())
    return (
        f"command → commit {1000 * (one.committed_s - one.began_s):.0f} ms, "
        f"→ accepted {1000 * (one.accepted_s - one.committed_s):.0f}, "
        f"→ served {1000 * (one.served_s - one.accepted_s):.0f} ({steps}) {dict(one.others) or ''}"
    )


def _legs(changes: Sequence[Change]) -> str:
    """Medians of each leg."""
    accepted = statistics.median(1000 * (one.accepted_s - one.committed_s) for one in changes)
    legs = [f"accepted {accepted:.0f}"]
    for name in changes[0].steps:
        legs.append(f"{name} {statistics.median(1000 * one.steps[name] for one in changes):.0f}")
    return ", ".join(legs)


# ---- updates under load ----------------------------------------------------------------------------------------------


def updates(lab: EdgeLab, wrk: Wrk, count: int) -> Iterator[Figure]:
    runs: list[Run] = []
    took_ms = []
    with Regular(lab.addresses[EDGE], HOME) as visitor, wrk.at_work(2 * RATE, runs):
        for number in range(count):
            image = IMAGES[(number + 1) % 2]
            began_s = time.time()
            lab.write(image, [HOME])
            said = _ended(lab, "deploy", "shop", "--yes", "--json")
            heard_s = visitor.heard_s(image[-1])
            took_ms.append(1000 * (heard_s - lab.healthy_s(began_s)))
            _say(f"update {number + 1}: healthy → heard {took_ms[-1]:.0f} ms; {said['services'][0]['phase']}")
    (run,) = runs
    note = f"{count} updates, max {max(took_ms):.0f}, at {run.rate:,.0f} requests/s"
    yield Figure(
        "healthy → the new version is heard, p50", "ms", statistics.median(took_ms), None, HEARD_MS_MAX, note=note
    )
    note = f"{count} updates, {run.asked:,} requests at {run.rate:,.0f}/s, p99 {run.p99_ms:.1f} ms"
    yield Figure("requests dropped by updates", "", float(run.failed), target=0.0, note=note)
    yield Figure("requests per second meanwhile", "1/s", run.rate, target=RATE, at_least=True)


# ---- two hops --------------------------------------------------------------------------------------------------------


def hops(lab: EdgeLab, wrk: Wrk, rounds: int, seconds: int, warm_rounds: int) -> Iterator[Figure]:
    """All proxies of all sides start anew for each round, so that no side lives with old connections all the time.
    Requests per second swing widely on a shared machine; processor time per request swings less, and is judged, too."""
    sides = Side(443), Side(PORT), Side(SAME_PORT)
    for number in range(rounds):
        folder = os.path.join(lab.folder, f"by-hand-{number}")
        lab.restart_proxies()
        Newcomer(lab.addresses[EDGE], HOME).served_s()
        ours = tuple(lab.pids(node)["proxy"] for node in (EDGE, WORKER))
        with TwoHops(lab, folder, HOME) as bare, TwoHops(lab, f"{folder}-same", HOME, SAME_PORT) as same:
            pids = dict(zip(sides, (ours, bare.pids, same.pids), strict=True))
            for side in sides * warm_rounds:
                wrk.run(1, side.port)
            for side in sides[number % 3 :] + sides[: number % 3]:
                side.take(wrk, seconds, pids[side])
    mine, bare_side, same_side = sides
    ratios = [one.rate / other.rate for one, other in zip(mine.runs, bare_side.runs, strict=True)]
    failed = sum(run.failed for side in sides for run in side.runs)
    note = f"{rounds} rounds of {seconds} s, {min(ratios):.2f} to {max(ratios):.2f}; {failed} failed"
    name = "edge → worker → container"
    yield Figure(name, "requests/s", mine.rate, bare_side.rate, THROUGHPUT_MIN, at_least=True, note=note)
    yield Figure(f"{name}, p50", "ms", mine.median("p50_ms"), bare_side.median("p50_ms"))
    yield Figure(f"{name}, p99", "ms", mine.median("p99_ms"), bare_side.median("p99_ms"))
    yield Figure(f"{name}, processor time", "µs", mine.cost_us, bare_side.cost_us, note="of both proxies, each request")
    costs = [one / other for one, other in zip(mine.costs_us, same_side.costs_us, strict=True)]
    note = f"ratios of {rounds} rounds: {min(costs):.2f} to {max(costs):.2f}, median {statistics.median(costs):.2f}"
    beside = "beside by hand with the same filters, limits and access log"
    yield Figure(f"the same, processor time {beside}", "µs", mine.cost_us, same_side.cost_us, COST_RATIO_MAX, note=note)
    yield Figure(f"the same, requests/s {beside}", "requests/s", mine.rate, same_side.rate)


@dataclass(eq=False)
class Side:
    """Two proxies, one behind the other, and what was counted of them."""

    port: int
    runs: list[Run] = field(default_factory=list)
    costs_us: list[float] = field(default_factory=list)

    def take(self, wrk: Wrk, seconds: int, pids: Sequence[int]) -> None:
        before_us = sum(map(cpu_us, pids))
        run = wrk.run(seconds, self.port)
        self.costs_us.append((sum(map(cpu_us, pids)) - before_us) / run.asked)
        self.runs.append(run)
        _say(f"port {self.port}: {_run_told(run)}, {self.costs_us[-1]:.0f} µs for each")

    @property
    def rate(self) -> float:
        return self.median("rate")

    @property
    def cost_us(self) -> float:
        return statistics.median(self.costs_us)

    def median(self, what: str) -> float:
        found: list[float] = [getattr(run, what) for run in self.runs]
        return statistics.median(found)


def _run_told(run: Run) -> str:
    return f"{run.rate:,.0f}/s, p50 {run.p50_ms:.2f} ms, p99 {run.p99_ms:.2f} ms, {run.failed} failed"


def _rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.rate for run in runs)


# ---- nobody left to manage it ----------------------------------------------------------------------------------------


def dead(lab: EdgeLab, wrk: Wrk, rounds: int, seconds: int) -> Iterator[Figure]:
    alive, without, between = list[Run](), list[Run](), list[Run]()
    for _ in range(min(2, rounds)):
        alive.append(wrk.run(seconds))
        with wrk.at_work(500.0, between):
            lab.kill_managers()
        without.append(wrk.run(seconds))
        with wrk.at_work(500.0, between):
            lab.start_managers()
        _say(f"with {alive[-1].rate:,.0f}/s, without hub and agents {without[-1].rate:,.0f}/s")
    failed = sum(run.failed for run in (*alive, *without, *between))
    asked = sum(run.asked for run in (*alive, *without, *between))
    name = "throughput without hub and agents"
    yield Figure(
        name, "requests/s", _rate(without), _rate(alive), THROUGHPUT_MIN, at_least=True, note="peer: with them"
    )
    note = f"{asked:,} requests, {len(alive)} times killed and started under load"
    yield Figure("requests dropped by their end and return", "", float(failed), target=0.0, note=note)


# ---- many ------------------------------------------------------------------------------------------------------------


def many(lab: EdgeLab, count: int, rounds: int) -> Iterator[Figure]:
    """One more beside so many: each has its certificate and its route on the edge and on the worker."""
    names = [HOME, *(f"many{number}.{DOMAIN}" for number in range(count - 1))]
    lab.write(IMAGES[0], names)
    began_s = time.time()
    _ended(lab, "apply", "--yes", "--json")
    all_s = time.time() - began_s
    changes = []
    for number in range(rounds):
        changes.append(change(lab, f"more{number}.{DOMAIN}", *names))
        _say(_told(changes[-1]))
    took_s = [one.served_s - one.committed_s for one in changes]
    note = f"max {max(took_s):.2f}; {_legs(changes)}; the first {count} together: {all_s:.1f} s"
    name = f"commit → served beside {count} public routes, p50"
    yield Figure(name, "s", statistics.median(took_s), None, MANY_S_MAX.get(count), note=note)


# ---- all of it -------------------------------------------------------------------------------------------------------


def measure(effort: Effort, only: Sequence[str] = ()) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="hf-traffic-") as folder, EdgeLab(folder) as lab:
        lab.write(IMAGES[0], [HOME])
        _ended(lab, "apply", "--yes", "--json")
        wrk = Wrk(os.path.join(folder, "wrk"), lab.addresses[EDGE], HOME)
        parts: dict[str, Callable[[], Iterator[Figure]]] = {
            "served": lambda: served(lab, effort.rounds, effort.warm_rounds),
            "updates": lambda: updates(lab, wrk, effort.updates),
            "hops": lambda: hops(lab, wrk, effort.hop_rounds, effort.hop_s, effort.warm_rounds),
            "dead": lambda: dead(lab, wrk, effort.hop_rounds, effort.hop_s),
            "many": lambda: many(lab, effort.many, max(1, effort.rounds // 2)),
        }
        for name in only or parts:
            _say(f"measuring {name}, load {os.getloadavg()[0]:.1f} …")
            yield from parts[name]()


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, 40 routes")
    parser.add_argument("--many", type=int, metavar="N", help="public routes on the edge (default 200)")
    parser.add_argument("--only", metavar="PART", action="append", default=[])
    args = parser.parse_args()
    effort = QUICK if args.quick else FULL
    if args.many:
        effort = replace(effort, many=args.many)
    found = list(measure(effort, args.only))
    print(table(found))
    print(json.dumps({"load": os.getloadavg()[0], "figures": document(found)}, ensure_ascii=False))
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
