"""The parts of the bench and their sizes: runs the chosen parts, prints a table and one JSON document.

A part that needs much memory runs in a process of its own: the kernel counts the memory of the process that starts a
command into that command's peak.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench import (
    archives,
    checkpoints,
    deploy,
    growth,
    hub_process,
    move_pauses,
    moves,
    proxy,
    starts,
    terraform,
    traffic,
    updates,
)
from bench.figures import Figure, document, table
from bench.place import Place

COMMIT_RATIO_MAX = 4
BOOT_THROUGHPUT_MIN = 0.5
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MISSED = 1  # exit code of a bench whose target is missed; it has printed its figures


@dataclass(frozen=True)
class Effort:
    """How much each part does. `peers` False: peers that the bench itself would have to install are left out."""

    plans: int
    applies: int
    services: int
    sizes: tuple[int, ...]  # of growing fleets
    size_rounds: int
    commits: int
    boots: Mapping[int, int]  # size of a blob → how many
    boot_rounds: int
    containers: int
    deploy_rounds: int
    healings: int
    crashes: int
    settled_s: float
    hub_settled_s: float
    idle_s: float
    traffic: traffic.Effort
    proxy: proxy.Effort
    store_commits: int
    latency: tuple[int, int]  # applies that are measured; applies before those
    herd: tuple[int, float, float, float]  # agents; seconds; seconds between check-ins; seconds without a hub
    peers: bool
    checkpoints: checkpoints.Effort
    archives: archives.Effort
    updates: updates.Effort
    moves: moves.Effort
    move_pauses: move_pauses.Effort


FULL = Effort(
    plans=7, applies=3, services=1_000, sizes=(1_000, 5_000, 20_000), size_rounds=5, commits=300,
    boots={1024: 10_000, 65_536: 10_000}, boot_rounds=5, containers=50, deploy_rounds=3, healings=3, crashes=15,
    settled_s=5.0, hub_settled_s=2.0, idle_s=60.0, traffic=traffic.FULL, proxy=proxy.FULL, store_commits=1000,
    latency=(40, 2), herd=(1000, 300.0, 10.0, 3.0), peers=True, checkpoints=checkpoints.FULL, archives=archives.FULL,
    updates=updates.FULL, moves=moves.FULL, move_pauses=move_pauses.FULL,
)  # fmt: skip
QUICK = Effort(
    plans=3, applies=1, services=1_000, sizes=(1_000, 5_000), size_rounds=3, commits=100,
    boots={1024: 10_000, 65_536: 1_000}, boot_rounds=3, containers=10, deploy_rounds=1, healings=3, crashes=5,
    settled_s=5.0, hub_settled_s=2.0, idle_s=10.0, traffic=traffic.QUICK, proxy=proxy.QUICK, store_commits=200,
    latency=(10, 2), herd=(100, 20.0, 10.0, 3.0), peers=True, checkpoints=checkpoints.QUICK, archives=archives.QUICK,
    updates=updates.QUICK, moves=moves.QUICK, move_pauses=move_pauses.QUICK,
)  # fmt: skip
SMALLEST = Effort(
    plans=1, applies=1, services=2, sizes=(2, 4), size_rounds=1, commits=5,
    boots={1024: 10}, boot_rounds=1, containers=1, deploy_rounds=1, healings=1, crashes=1, settled_s=0.0,
    hub_settled_s=0.1, idle_s=1.0, traffic=traffic.SMALLEST, proxy=proxy.SMALLEST, store_commits=10, latency=(1, 0),
    herd=(3, 1.0, 1.0, 0.0), peers=False, checkpoints=checkpoints.SMALLEST, archives=archives.SMALLEST,
    updates=updates.SMALLEST, moves=moves.SMALLEST, move_pauses=move_pauses.SMALLEST,
)  # fmt: skip


# ---- parts that run in a process of their own ------------------------------------------------------------------------


def commits(rounds: int) -> Iterator[Figure]:
    found = child("commits", "--rounds", str(rounds))
    note = "Mailbox.commit in the process : two rows"
    yield Figure(
        "commit of 1 address of 10 services", "µs", found["ours_us"], found["bare_us"], COMMIT_RATIO_MAX, note=note
    )


def boots(blobs: Mapping[int, int], rounds: int) -> Iterator[Figure]:
    for size, count in blobs.items():
        found = child("boots", "--blobs", str(count), "--size", str(size), "--rounds", str(rounds))
        yield Figure(
            f"boot, {count:,} blobs of {size // 1024} KiB",
            "MiB/s",
            found["mib"] / found["boot_s"],
            found["mib"] / found["sha256sum_s"],
            BOOT_THROUGHPUT_MIN,
            at_least=True,
            note=f"{found['boot_s']:.2f} : {found['sha256sum_s']:.2f} s",
        )
        yield Figure(f"hub run until it listens, {count:,} blobs of {size // 1024} KiB", "s", found["hub_run_s"])


def ledger_store(rounds: int) -> Iterator[Figure]:
    found = child("ledger_store", "--rounds", str(rounds))
    yield Figure("commit of 1 key", "µs", found["lone_commit_us"], found["bare_commit_us"])
    yield Figure("commits of 64 threads", "1/s", found["group_64_tx_per_s"])


def latency(applies: int, warm: int) -> Iterator[Figure]:
    found = child("latency", "--applies", str(applies), "--warm", str(warm))
    for leg in ("request_ms", "delivery_ms", "total_ms"):
        target = found["target_p50_ms"] if leg == "delivery_ms" else None
        yield Figure(f"commit → accepted, {leg[:-3]}, p50", "ms", found[leg]["p50"], target=target)


def herd(agents: int, seconds: float, every_s: float, down_s: float) -> Iterator[Figure]:
    words = ("--agents", str(agents), "--seconds", str(seconds), "--every", str(every_s), "--down", str(down_s))
    found = child("herd", *words)
    units = {"p50_ms": "ms", "p99_ms": "ms", "check_ins": "", "errors": "", "hub_core": "cores", "hub_rss_mb": "MB"}
    for name, unit in {**units, "node_list_s": "s", "herd_answered": "agents", "herd_s": "s"}.items():
        yield Figure(f"{agents} agents, {name}", unit, found[name])


def idle(seconds: float, peers: bool) -> Iterator[Figure]:
    if not peers:
        _say("the peer salt-minion is left out: this size installs nothing")
    found = child("idle", "--seconds", str(seconds), *([] if peers else ["--no-salt"]))
    for side in ("agent", "hub"):
        yield Figure(f"idle {side}, processor", "% of a core", found[f"{side}_cpu_percent"])
        yield Figure(f"idle {side}, RSS", "MB", found[f"{side}_rss_mb"])
    if peers:
        yield Figure("idle agent beside salt-minion, RSS", "MB", found["agent_rss_mb"], found["salt_minion_rss_mb"])


def child(module: str, *args: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench." + module, *args]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE)
    if done.returncode not in (0, MISSED) or not done.stdout:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


# ---- all parts -------------------------------------------------------------------------------------------------------


def _archives(effort: Effort, place: Callable[[str], Place]) -> Iterable[Figure]:
    return archives.measure(place("archives").folder, effort.archives)


def _updates(effort: Effort, place: Callable[[str], Place]) -> Iterable[Figure]:
    return updates.measure(place("updates").folder, effort.updates)


def _moves(effort: Effort, place: Callable[[str], Place]) -> Iterable[Figure]:
    return moves.measure(place("moves").folder, effort.moves)


@dataclass(frozen=True)
class Part:
    """`alone`: measured only when it is named, because it takes long or belongs to no target of `make bench`."""

    name: str
    measure: Callable[[Effort, Callable[[str], Place]], Iterable[Figure]]
    alone: bool = False


def _terraform(effort: Effort, place: Callable[[str], Place]) -> Iterable[Figure]:
    if not effort.peers and not terraform.is_installed():
        _say(f"the peer Terraform is left out: {terraform.TERRAFORM} does not exist, and this size can do without it")
        return terraform.measure_alone(place("terraform"), effort.services)
    return terraform.measure(place("terraform"), effort.services, effort.plans, effort.applies, same_facts=False)


def _same_facts(effort: Effort, place: Callable[[str], Place]) -> Iterable[Figure]:
    if not effort.peers and not terraform.is_installed():
        return _terraform(effort, place)
    return terraform.measure(place("same-facts"), effort.services, 1, 1, same_facts=True)


def _deploy(effort: Effort, place: Callable[[str], Place]) -> Iterable[Figure]:
    if not effort.peers:
        _say("the peer podman-compose is left out: this size installs nothing")
    return deploy.measure(
        effort.containers, effort.deploy_rounds, effort.idle_s, compose=effort.peers, healings=effort.healings,
        settled_s=effort.settled_s, crash_count=effort.crashes,
    )  # fmt: skip


PARTS = (
    Part("starts", lambda effort, place: starts.measure(place("starts"), effort.plans)),
    Part("terraform", _terraform),
    Part("same-facts", _same_facts, alone=True),
    Part("growth", lambda effort, place: growth.measure(place, effort.sizes, effort.size_rounds)),
    Part("hub", lambda effort, place: hub_process.measure(place("hub"), effort.services, effort.hub_settled_s)),
    Part("commits", lambda effort, _: commits(effort.commits)),
    Part("boots", lambda effort, _: boots(effort.boots, effort.boot_rounds)),
    Part("deploy", _deploy),
    Part("traffic", lambda effort, _: traffic.measure(effort.traffic)),
    Part("ledger-store", lambda effort, _: ledger_store(effort.store_commits), alone=True),
    Part("latency", lambda effort, _: latency(*effort.latency), alone=True),
    Part("herd", lambda effort, _: herd(*effort.herd), alone=True),
    Part("idle", lambda effort, _: idle(effort.idle_s, effort.peers), alone=True),
    Part("checkpoints", lambda effort, _: checkpoints.measure(effort.checkpoints), alone=True),
    Part("archives", _archives, alone=True),
    Part("updates", _updates, alone=True),
    Part("moves", _moves, alone=True),
    Part("move-pauses", lambda effort, _: move_pauses.measure(effort.move_pauses), alone=True),
    Part("proxy", lambda effort, _: proxy.measure(effort.proxy), alone=True),
)


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description="Measure the speed promises. Exit 1: a target is missed.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, up to 5,000 services")
    parser.add_argument("--smallest", action="store_true", help="each part once, as small as it can be; judges nothing")
    parser.add_argument("--same-facts", action="store_true", help="also beside Terraform with the same facts; slow")
    parser.add_argument("--only", metavar="PART", action="append", choices=names, help=", ".join(names))
    args = parser.parse_args()
    effort = SMALLEST if args.smallest else QUICK if args.quick else FULL
    asked = args.only or [p.name for p in PARTS if not p.alone or args.smallest or p.name == _extra(args.same_facts)]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = _measure(folder, effort, [part for part in PARTS if part.name in asked])
    if args.smallest:
        found = [replace(figure, target=None) for figure in found]
    print(table(found))
    machine = {"date": time.strftime("%Y-%m-%d"), "machine": platform.platform(), "cpus": os.cpu_count()}
    print(json.dumps({**machine, "load": os.getloadavg()[0], "figures": document(found)}, ensure_ascii=False))
    return int(any(figure.verdict == "MISSED" for figure in found))


def _extra(same_facts: bool) -> str:
    return "same-facts" if same_facts else ""


def _measure(folder: str, effort: Effort, parts: Iterable[Part]) -> list[Figure]:
    def place(name: str) -> Place:
        os.mkdir(os.path.join(folder, name))
        return Place(os.path.join(folder, name))

    found: list[Figure] = []
    for part in parts:
        _say(f"measuring {part.name} …")
        began_s = time.monotonic()
        found += part.measure(effort, place)
        _say(f"measured {part.name} in {time.monotonic() - began_s:.1f} s")
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
