"""Deploying many containers on one node: ours beside bare libpod calls and the tools people use (issue 4, Speed).

`python -m bench.deploy --containers 50 --rounds 3` brings up a lab, lets every side deploy the same containers, do
nothing, and change one, in turns, and prints a table of medians, ratios to bare libpod, and one JSON document. Ours is
measured from the command until it ends, which is when every container was seen healthy. Afterwards, with our
containers in place: what crashes and meddling cost, and what the idle agent takes. Needs root, as labs do.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from bench.bare_libpod import BareLibpod
from bench.figures import Figure, document, table
from bench.ground import OURS, PEERS, Ground
from bench.hub_process import memory_mb
from bench.idle import cpu_s
from bench.our_services import Healing, OurServices
from bench.podman_peers import PodmanCompose, PodmanLoop

WORKS = ("deploy", "noop", "change")
ALLOWED_S = {"deploy": 0.6, "noop": 0.0, "change": 0.6}  # for what a command line costs
ALLOWED_RATIO = {"deploy": 1.15, "change": 1.3}
NOOP_S_MAX, DRIFT_S_MAX = 0.35, 1.0
CRASH_RATIO_MAX = 1.05
AGENT_RATIO_MAX = 1.15
IDLE_RSS_MB_MAX, IDLE_CPU_MAX = 85.0, 0.8
HEALINGS, CRASHES, SETTLED_S = 3, 15, 5.0


class Side(Protocol):
    @property
    def name(self) -> str: ...
    def deploy(self) -> None: ...
    def noop(self) -> None: ...
    def change(self) -> None: ...
    def clear(self) -> None: ...


Times = dict[str, dict[str, list[float]]]  # side → work → seconds


def timed(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def take_turns(sides: Sequence[Side], rounds: int) -> Times:
    """One round of a side is deploy, no-op, change; its containers are gone before the next side begins."""
    found: Times = {side.name: {work: [] for work in WORKS} for side in sides}
    for number in range(rounds):
        for side in [*sides[number % len(sides) :], *sides[: number % len(sides)]]:
            for work in WORKS:
                found[side.name][work].append(timed(getattr(side, work)))
            side.clear()
            told = "  ".join(f"{work} {found[side.name][work][-1]:.2f} s" for work in WORKS)
            print(f"round {number + 1}  {side.name}: {told}", file=sys.stderr, flush=True)
    return found


def speed(times: Times, ours: str, bare: str, containers: int) -> Iterator[Figure]:
    medians = {side: {work: statistics.median(of[work]) for work in WORKS} for side, of in times.items()}
    for work in WORKS:
        mine = medians[ours][work]
        for side, of in medians.items():
            if side in (ours, bare):
                continue
            target = None if side.startswith(bare) else 1.0
            yield Figure(f"{work}, {containers}: ours beside {side}", "s", mine, of[work], target)
        peer = medians[bare][work]
        if work in ALLOWED_RATIO:
            most = ALLOWED_RATIO[work] + ALLOWED_S[work] / peer
            note = f"≤ {ALLOWED_RATIO[work]} × bare + {ALLOWED_S[work]} s"
            yield Figure(f"{work}, {containers}: ours beside {bare}", "s", mine, peer, round(most, 3), note=note)
        else:
            yield Figure(f"no-op, {containers}", "s", mine, target=NOOP_S_MAX, note=f"{bare}: {peer:.3f} s")


def crashes(ours: OurServices, bare: BareLibpod, healing: Healing, count: int, settled_s: float) -> Figure:
    """In turns; which side begins changes, too. Our containers stay."""
    ours.deploy()
    bare.deploy()
    time.sleep(settled_s)
    found: dict[str, list[float]] = {OURS: [], PEERS: []}
    for number in range(count):
        for node in (OURS, PEERS) if number % 2 else (PEERS, OURS):
            found[node].append(healing.crash_s(node, number))
    bare.clear()
    ours_s, bare_s = (statistics.median(found[node]) for node in (OURS, PEERS))
    spread = "; ".join(f"{min(times):.3f} to {max(times):.3f}" for times in found.values())
    note = f"kill -9, {count} on each side, {spread}; peer: the same container under bare podman"
    return Figure("crash → runs again, p50", "s", ours_s, bare_s, CRASH_RATIO_MAX, note=note)


def living(
    ground: Ground,
    ours: OurServices,
    bare: BareLibpod,
    idle_s: float,
    healings: int = HEALINGS,
    settled_s: float = SETTLED_S,
    crash_count: int = CRASHES,
) -> Iterator[Figure]:
    """With all containers in place: healing, drift, rest."""
    healing = Healing(ground, ours)
    yield crashes(ours, bare, healing, crash_count, settled_s)
    stopped = statistics.median(healing.stopped_s() for _ in range(healings))
    yield Figure("stopped by hand → runs again", "s", stopped, note="noticed by the agent, and the start")
    noticed = statistics.median(healing.noticed_s() for _ in range(healings))
    yield Figure("drift noticed", "s", noticed, target=DRIFT_S_MAX, note="removed by hand → the next one is made")
    time.sleep(settled_s)  # until what was done last is forgotten
    pid = ours.agent_pid()
    before_s = cpu_s(pid)
    time.sleep(idle_s)
    share = 100 * (cpu_s(pid) - before_s) / idle_s
    yield Figure("idle agent, processor", "% of a core", share, target=IDLE_CPU_MAX, note=f"{idle_s:.0f} s")
    yield Figure("idle agent, RSS", "MB", memory_mb(pid)["Rss"], target=IDLE_RSS_MB_MAX)


def measure(
    containers: int,
    rounds: int,
    idle_s: float,
    peers_only: bool = False,
    compose: bool = True,
    healings: int = HEALINGS,
    settled_s: float = SETTLED_S,
    crash_count: int = CRASHES,
) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="holdfast-deploy-") as folder, Ground(folder, bare=peers_only) as ground:
        bare = BareLibpod(ground, containers)
        sides: list[Side] = [bare, BareLibpod(ground, containers, published=False), PodmanLoop(ground, containers)]
        if compose:
            sides.append(PodmanCompose(ground, containers))
        ours = None if peers_only else OurServices(ground, containers)
        times = take_turns([*sides, *([ours] if ours else [])], rounds)
        if ours is None:
            return [
                Figure(f"{work}, {containers}: {name}", "s", statistics.median(of[work]))
                for name, of in times.items()
                for work in WORKS
            ]
        found = list(speed(times, ours.name, bare.name, containers))
        bare_s, agent_s = statistics.median(times[bare.name]["deploy"]), statistics.median(ours.agent_took_s)
        note = "accepted → all healthy and switched"
        found.append(Figure("deploy, the agent alone", "s", agent_s, bare_s, AGENT_RATIO_MAX, note=note))
        return [*found, *living(ground, ours, bare, idle_s, healings, settled_s, crash_count)]


def measure_crashes(containers: int, count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="holdfast-deploy-") as folder, Ground(folder) as ground:
        ours, bare = OurServices(ground, containers), BareLibpod(ground, containers)
        return [crashes(ours, bare, Healing(ground, ours), count, SETTLED_S)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--containers", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--peers-only", action="store_true", help="without a fleet: what the others take here")
    parser.add_argument("--no-compose", action="store_true", help="leave podman-compose out, which is slow")
    parser.add_argument("--crashes", type=int, metavar="N", help="nothing but N crashes of containers on each side")
    args = parser.parse_args()
    if args.crashes:
        found = measure_crashes(args.containers, args.crashes)
    else:
        found = measure(args.containers, args.rounds, args.idle, args.peers_only, not args.no_compose)
    with suppress(BrokenPipeError):
        print(table(found))
        print(json.dumps({"load": os.getloadavg()[0], "figures": document(found)}, ensure_ascii=False))
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
