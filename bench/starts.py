"""What a command costs before it has done anything: --version, and a plan of one service."""

import sys
from collections.abc import Iterator

from bench.figures import Figure
from bench.place import HOLDFAST, Place, plan_args
from bench.stopwatch import interleaved, lap

VERSION_S_MAX, OVERHEAD_S_MAX = 0.15, 0.30


def measure(place: Place, rounds: int) -> Iterator[Figure]:
    fleet = place.fleet("one", services=1, nodes=1)
    version, plan, bare = interleaved(
        rounds,
        lambda: lap([HOLDFAST, "--version"], place.env),
        lambda: lap(plan_args(fleet), place.env),
        lambda: lap([sys.executable, "-c", "pass"], place.env),
    )
    note = f"of it python itself {bare.wall_s:.3f} s; processor time {{:.3f}} s"
    yield Figure("holdfast --version", "s", version.wall_s, target=VERSION_S_MAX, note=note.format(version.cpu_s))
    yield Figure("plan of 1 service", "s", plan.wall_s, target=OVERHEAD_S_MAX, note=note.format(plan.cpu_s))
