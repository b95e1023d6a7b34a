"""Measures one figure after the other on request, for bench/compare.py. Keeps fleets, a hub and a lab between requests.

Reads one JSON request a line, `{"figure": NAME, "containers": N, "idle_s": S}`, and answers each with one JSON line,
`{"values": {"name": number, …}}`. Ends, and takes everything away, at the end of its input.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from tempfile import TemporaryDirectory

from bench import herd
from bench.changes import Changes
from bench.ground import Ground
from bench.idle import TICKS_PER_S, cpu_s
from bench.measurements import child
from bench.our_services import OurServices
from bench.place import HOLDFAST, Place, apply_args, plan_args
from bench.stopwatch import lap
from holdfast.model.revision import Head

SERVICES = 1_000
STARTS = 5  # of the cheap commands; their median is one sample
COMMITS = 50
AGENTS, CHECK_INS_S, EVERY_S = 30, 2.0, 1.0
SETTLED_S = 5.0
CHANGED_SERVICES = (1, 50)  # sizes of the two fleets
READS = (("status",), ("node", "list"), ("history",))
Values = Mapping[str, float]


class Request:
    """What is measured, and how much of it."""

    def __init__(self, figure: str, containers: int, idle_s: float) -> None:
        self.figure, self.containers, self.idle_s = figure, containers, idle_s


class Sampler:
    """Everything that is made for a figure is made at its first request."""

    def __init__(self, kept: ExitStack) -> None:
        self._kept = kept

    def starts(self, request: Request) -> Values:
        env = self._bare.env
        return _command("holdfast --version", [HOLDFAST, "--version"], env, STARTS)

    def plans(self, request: Request) -> Values:
        place, new, applied = self._fleets
        return {
            **_command("create plan, 1,000 services", plan_args(new), place.env),
            **_command("no-op plan, 1,000 services", plan_args(applied), place.env),
            **_command("no-op apply, 1,000 services", apply_args(applied), place.env),
        }

    def commits(self, request: Request) -> Values:
        return {"commit of 1 address": child("commits", "--rounds", str(COMMITS))["ours_us"] / 1e6}

    def check_ins(self, request: Request) -> Values:
        hub, seen = self._hub
        found = asyncio.run(herd.steady(hub, AGENTS, CHECK_INS_S, EVERY_S, seen, 0.0))
        return {"check-in round trip, p50": found["p50_ms"] / 1e3}

    def reads(self, request: Request) -> Values:
        """Read-only commands at a hub with AGENTS nodes."""
        hub, _ = self._hub
        where = ["--json", "--fleet", hub.fleet_dir, "--hub", hub.url]
        values: dict[str, float] = {}
        for words in READS:
            values |= _command(f"holdfast {' '.join(words)}", [HOLDFAST, *words, *where], hub.place.env, STARTS)
        return values

    def changes(self, request: Request) -> Values:
        """One changed service, detached: until the commit, and the whole command."""
        values: dict[str, float] = {}
        for services, fleet in self._changed.items():
            taken = [fleet.deploy() for _ in range(STARTS)]
            name = f"deploy of 1 changed service of {services}"
            values |= {
                f"{name}, command to commit": statistics.median(committed_s for _, committed_s in taken),
                f"{name}, whole command": statistics.median(whole.wall_s for whole, _ in taken),
                f"{name}, processor": statistics.median(whole.cpu_s for whole, _ in taken),
            }
        return values

    def deploys(self, request: Request) -> Values:
        """Deploy, no-op, idle agent, change; then every container is removed again."""
        ours = self._services
        ours.resize(request.containers)
        values = {
            f"deploy of {request.containers} containers": _timed(ours.deploy),
            "no-op apply in a lab": _timed(ours.noop),
        }
        if request.idle_s:
            time.sleep(SETTLED_S)
            pid = ours.agent_pid()
            before_s = cpu_s(pid)
            time.sleep(request.idle_s)
            used_s = max(cpu_s(pid) - before_s, 1 / TICKS_PER_S)
            values[f"idle agent, {request.containers} containers, share of a core"] = used_s / request.idle_s
        values["change of 1 container"] = _timed(ours.change)
        ours.clear()
        return values

    # ---- made once

    @cached_property
    def _folder(self) -> str:
        return self._kept.enter_context(TemporaryDirectory(prefix="holdfast-compare-"))

    def _subfolder(self, name: str) -> str:
        path = os.path.join(self._folder, name)
        os.mkdir(path)
        return path

    @cached_property
    def _bare(self) -> Place:
        return Place(self._subfolder("bare"))

    @cached_property
    def _fleets(self) -> tuple[Place, str, str]:
        place = Place(self._subfolder("fleets"))
        new, applied = place.fleet("new", SERVICES), place.fleet("applied", SERVICES)
        lap(apply_args(applied), place.env)
        return place, new, applied

    @cached_property
    def _hub(self) -> tuple[herd.Hub, Head]:
        hub = herd.Hub(Place(self._subfolder("hub")), AGENTS)
        self._kept.callback(hub.stop)
        return hub, hub.head()

    @cached_property
    def _changed(self) -> Mapping[int, Changes]:
        made: dict[int, Changes] = {}
        for services in CHANGED_SERVICES:
            made[services] = Changes(Place(self._subfolder(f"changed-{services}")), services)
            self._kept.callback(made[services].stop)
        return made

    @cached_property
    def _services(self) -> OurServices:
        ground = self._kept.enter_context(Ground(self._subfolder("ground")))
        return OurServices(ground, 0)


def _timed(work: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _command(name: str, command: Sequence[str], env: Mapping[str, str], times: int = 1) -> Values:
    """Wall time, and processor time, which a busy machine disturbs less; the median of so many cold processes."""
    laps = [lap(command, env) for _ in range(times)]
    return {
        name: statistics.median(each.wall_s for each in laps),
        f"{name}, processor": statistics.median(each.cpu_s for each in laps),
    }


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed is no answer
    with ExitStack() as kept:
        sampler = Sampler(kept)
        works = {
            "starts": sampler.starts,
            "plans": sampler.plans,
            "commits": sampler.commits,
            "check-ins": sampler.check_ins,
            "reads": sampler.reads,
            "changes": sampler.changes,
            "deploys": sampler.deploys,
        }
        for line in sys.stdin:
            request = Request(**json.loads(line))
            print(json.dumps({"values": works[request.figure](request)}), file=answers, flush=True)


if __name__ == "__main__":
    main()
