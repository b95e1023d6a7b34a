"""Time, processor time and peak memory of commands; medians of sides that take turns. Knows no command."""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lap:
    """`peak_mib` is never less than what the caller itself holds: the kernel counts from before the exec."""

    wall_s: float
    cpu_s: float
    peak_mib: float


Side = Callable[[], Lap]


def lap(command: Sequence[str], env: Mapping[str, str], folder: str = ".") -> Lap:
    """One cold process from start to end, its output thrown away. A command that fails has no time."""
    start_s = time.perf_counter()
    child = subprocess.Popen(
        command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - start_s
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed with {child.returncode}:\n{said.decode()}")
    return Lap(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def interleaved(rounds: int, *sides: Side) -> list[Lap]:
    """One lap per side and round in turns, so that a slow moment of the machine meets all; the median of each."""
    laps: list[list[Lap]] = [[] for _ in sides]
    for _ in range(rounds):
        for taken, side in zip(laps, sides, strict=True):
            taken.append(side())
    return [_median(taken) for taken in laps]


def _median(laps: Sequence[Lap]) -> Lap:
    return Lap(
        statistics.median(each.wall_s for each in laps),
        statistics.median(each.cpu_s for each in laps),
        max(each.peak_mib for each in laps),
    )
