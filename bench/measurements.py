"""Every measurement of the issue in one run: a table for people, then one JSON document. Exit 1 if a target is missed.

Everything that needs much memory runs in a process of its own: the kernel counts the memory of whoever starts a
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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bench import deploy, growth, hub_process, starts, terraform, traffic
from bench.figures import Figure, document, table
from bench.place import Place

COMMIT_RATIO_MAX = 4
BOOT_THROUGHPUT_MIN = 0.5


@dataclass(frozen=True)
class Effort:
    plans: int
    applies: int
    sizes: tuple[int, ...]  # of growing fleets
    size_rounds: int
    commits: int
    boots: Mapping[int, int]  # size of a blob → how many
    boot_rounds: int
    containers: int
    deploy_rounds: int
    idle_s: float
    traffic: traffic.Effort


FULL = Effort(7, 3, (1_000, 5_000, 20_000), 5, 300, {1024: 10_000, 65_536: 10_000}, 5, 50, 3, 60.0, traffic.FULL)
QUICK = Effort(3, 1, (1_000, 5_000), 3, 100, {1024: 10_000, 65_536: 1_000}, 3, 10, 1, 10.0, traffic.QUICK)


def commits(rounds: int) -> Iterator[Figure]:
    found = _child("commits", "--rounds", str(rounds))
    note = "Mailbox.commit in the process : two rows"
    yield Figure(
        "commit of 1 address of 10 services", "µs", found["ours_us"], found["bare_us"], COMMIT_RATIO_MAX, note=note
    )


def boots(blobs: Mapping[int, int], rounds: int) -> Iterator[Figure]:
    for size, count in blobs.items():
        found = _child("boots", "--blobs", str(count), "--size", str(size), "--rounds", str(rounds))
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


def _child(module: str, *args: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench." + module, *args]
    done = subprocess.run(command, cwd=os.path.dirname(os.path.dirname(__file__)), check=True, stdout=subprocess.PIPE)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, up to 5,000 services")
    parser.add_argument("--same-facts", action="store_true", help="also beside Terraform with the same facts; slow")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        help="starts, terraform, growth, commits, boots, hub, deploy, traffic",
    )
    args = parser.parse_args()
    effort = QUICK if args.quick else FULL
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = _measure(folder, effort, args.same_facts, args.only)
    print(table(found))
    machine = {"date": time.strftime("%Y-%m-%d"), "machine": platform.platform(), "cpus": os.cpu_count()}
    print(json.dumps({**machine, "load": os.getloadavg()[0], "figures": document(found)}, ensure_ascii=False))
    return int(any(figure.verdict == "MISSED" for figure in found))


def _measure(folder: str, effort: Effort, same_facts: bool, only: list[str] | None) -> list[Figure]:
    def place(name: str) -> Place:
        os.mkdir(os.path.join(folder, name))
        return Place(os.path.join(folder, name))

    parts: dict[str, Callable[[], Iterator[Figure]]] = {
        "starts": lambda: starts.measure(place("starts"), effort.plans),
        "terraform": lambda: terraform.measure(place("terraform"), effort.plans, effort.applies, same_facts=False),
        "same-facts": lambda: terraform.measure(place("same-facts"), 1, 1, same_facts=True),
        "growth": lambda: growth.measure(place, effort.sizes, effort.size_rounds),
        "hub": lambda: hub_process.measure(place("hub")),
        "commits": lambda: commits(effort.commits),
        "boots": lambda: boots(effort.boots, effort.boot_rounds),
        "deploy": lambda: iter(deploy.measure(effort.containers, effort.deploy_rounds, effort.idle_s)),
        "traffic": lambda: traffic.measure(effort.traffic),
    }
    chosen = only or [name for name in parts if same_facts or name != "same-facts"]
    found: list[Figure] = []
    for name in chosen:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        found += parts[name]()
    return found
