"""How time and memory grow with the number of services: create plan, no-op plan, apply."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.figures import Figure
from bench.place import Place, apply_args, plan_args
from bench.stopwatch import Lap, Side, interleaved, lap

EXPONENT_MAX = 1.1
STARTED_BY = 1  # services in the fleet whose time counts as start-up


class Fleets:
    """One size: a fleet that was never applied, and one that is applied again and again."""

    def __init__(self, place: Place, services: int) -> None:
        self._place = place
        self._new, self._applied = place.fleet("new", services), place.fleet("applied", services)

    def apply(self) -> Lap:
        self._place.forget(self._applied)
        return lap(apply_args(self._applied), self._place.env)

    def plan_creation(self) -> Lap:
        return lap(plan_args(self._new), self._place.env)

    def plan_nothing(self) -> Lap:
        return lap(plan_args(self._applied), self._place.env)


def measure(place: Callable[[str], Place], sizes: Sequence[int], rounds: int) -> Iterator[Figure]:
    """All sizes take turns: measured one after the other, a slow minute would pass for a steeper or flatter line."""
    fleets = {size: Fleets(place(f"growth-{size}"), size) for size in (STARTED_BY, *sizes)}

    def each(side: Callable[[Fleets], Side]) -> dict[int, Lap]:
        return dict(zip(fleets, interleaved(rounds, *(side(fleet) for fleet in fleets.values())), strict=True))

    applies = each(lambda fleet: fleet.apply)  # first: what plans nothing must be applied
    creates = each(lambda fleet: fleet.plan_creation)
    no_ops = each(lambda fleet: fleet.plan_nothing)
    for name, laps in (("create plan", creates), ("no-op plan", no_ops), ("apply", applies)):
        for size in sizes:
            each_us, note = laps[size].wall_s / size * 1e6, f"{laps[size].wall_s:.2f} s in all"
            yield Figure(f"{name}, {size:,} services", "µs each", each_us, note=note)
        points = {size: laps[size].cpu_s - laps[STARTED_BY].cpu_s for size in sizes}
        if min(points.values()) <= 0:
            print(f"{name}: no exponent; these sizes cost no more than start-up", file=sys.stderr, flush=True)
            continue
        note = "1 is linear; processor time without start-up"
        yield Figure(f"{name}, growth", "exponent", exponent(points), target=EXPONENT_MAX, note=note)
    for size in (sizes[0], sizes[-1]):
        yield Figure(f"create plan, {size:,} services, peak memory", "MiB", creates[size].peak_mib)


def exponent(points: Mapping[int, float]) -> float:
    """The slope of a straight line through the logarithms."""
    pairs = [(math.log(size), math.log(value)) for size, value in points.items()]
    middle_x, middle_y = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    rise = math.fsum((x - middle_x) * (y - middle_y) for x, y in pairs)
    return rise / math.fsum((x - middle_x) * (x - middle_x) for x, _ in pairs)
