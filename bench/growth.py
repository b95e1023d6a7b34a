"""How time and memory grow with the number of services: create plan, no-op plan, apply."""

import math
import shutil
from collections.abc import Iterator, Mapping

from bench.figures import Figure
from bench.place import Place, apply_args, plan_args
from bench.stopwatch import Lap, interleaved, lap

EXPONENT_MAX = 1.1
STARTED_BY = 1  # services in the fleet whose time counts as start-up


def measure(place: Place, rounds_of: Mapping[int, int]) -> Iterator[Figure]:
    """`rounds_of` maps a number of services to how often it is measured."""
    startup = _laps(place, STARTED_BY, 3)
    grown = {services: _laps(place, services, rounds) for services, rounds in rounds_of.items()}
    smallest, largest = min(rounds_of), max(rounds_of)
    for at, name in enumerate(("create plan", "no-op plan", "apply")):
        for services, laps in grown.items():
            each_us = laps[at].wall_s / services * 1e6
            yield Figure(f"{name}, {services:,} services", "µs each", each_us, note=f"{laps[at].wall_s:.2f} s in all")
        points = {services: laps[at].cpu_s - startup[at].cpu_s for services, laps in grown.items()}
        note = "1 is linear; processor time without start-up"
        yield Figure(f"{name}, growth", "exponent", exponent(points), target=EXPONENT_MAX, note=note)
    for services in (smallest, largest):
        yield Figure(f"create plan, {services:,} services, peak memory", "MiB", grown[services][0].peak_mib)


def _laps(place: Place, services: int, rounds: int) -> list[Lap]:
    new, applied = place.fleet(f"new-{services}", services), place.fleet(f"applied-{services}", services)

    def apply() -> Lap:
        place.forget(applied)
        return lap(apply_args(applied), place.env)

    applying = interleaved(rounds, apply)
    planning = interleaved(rounds, lambda: lap(plan_args(new), place.env), lambda: lap(plan_args(applied), place.env))
    for folder in (new, applied):
        shutil.rmtree(folder)
    return planning + applying


def exponent(points: Mapping[int, float]) -> float:
    """The slope of a straight line through the logarithms."""
    pairs = [(math.log(size), math.log(value)) for size, value in points.items()]
    middle_x, middle_y = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    rise = math.fsum((x - middle_x) * (y - middle_y) for x, y in pairs)
    return rise / math.fsum((x - middle_x) * (x - middle_x) for x, _ in pairs)
