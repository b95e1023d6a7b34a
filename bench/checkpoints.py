"""How long an update stops a service with data, seen by a client of its edge, beside the same update with an empty
volume in the same run (issue 13). `python -m bench.checkpoints` prints a table; needs root and btrfs-progs.

Every update gives the volume to another image, so that a checkpoint is made. Until the service stops, a writer changes
the same bytes again and again: that is what is left for the time in which nothing serves.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.edge_client import Watch
from bench.edge_lab import EDGE, IMAGES, WORKER, EdgeLab
from bench.figures import Figure, table
from bench.volume_service import VOLUME, changing, declare, hostname

MORE_S_MAX = 1.5  # than with an empty volume
RATIO_MAX = 1.3  # ten times as much data
FORECAST_MAX = 2.0
BLOCK = 64 << 10
PAUSE_S = 0.3


@dataclass(frozen=True)
class Effort:
    small_bytes: int
    large_bytes: int
    files: int
    changed_bytes: int
    rounds: int
    systems: tuple[str, ...]
    only: str = ""  # this case alone, and beside no other


FULL = Effort(400 << 20, 4 << 30, 20_000, 20 << 20, 3, ("ext4", "btrfs"))
QUICK = Effort(400 << 20, 4 << 30, 20_000, 20 << 20, 1, ("ext4", "btrfs"))
SMALLEST = Effort(2 << 20, 0, 20, 1 << 20, 1, ("ext4",), "file-small")


@dataclass(frozen=True)
class Case:
    name: str
    files: int
    size_bytes: int  # of all files


def cases(effort: Effort) -> tuple[Case, ...]:
    every = (
        Case("empty", 0, 0),
        Case("file-small", 1, effort.small_bytes),
        Case("file-large", 1, effort.large_bytes),
        Case("files-small", effort.files, effort.small_bytes),
        Case("files-large", effort.files, effort.large_bytes),
    )
    wanted = (case for case in every if case.size_bytes or not case.files)
    return tuple(case for case in wanted if effort.only in ("", case.name))


class Volume:
    """The data of one case, as the host sees it."""

    def __init__(self, path: str, case: Case, changed_bytes: int) -> None:
        self._path, self._case = path, case
        self._each_bytes = case.size_bytes // max(case.files, 1)
        self._changed = min(changed_bytes, case.size_bytes)

    def fill(self) -> None:
        block = os.urandom(1 << 20)
        for number in range(self._case.files):
            with open(os.path.join(self._path, f"f{number}"), "wb") as file:
                for at in range(0, self._each_bytes, len(block)):
                    file.write(block[: min(len(block), self._each_bytes - at)])
        subprocess.run(["sync", "-f", self._path], check=True)

    def change(self, watch: Watch) -> None:
        for at in range(0, self._changed, BLOCK):
            if watch.is_answered:
                self._write(at)

    def _write(self, at: int) -> None:
        """Spread over the one file, or over so many files."""
        if self._case.files == 1:
            number, offset = 0, at * (self._each_bytes // self._changed) // BLOCK * BLOCK
        else:
            number, offset = at // self._each_bytes if self._each_bytes else 0, at % max(self._each_bytes, 1)
        with open(os.path.join(self._path, f"f{number}"), "r+b") as file:
            file.seek(offset)
            file.write(os.urandom(min(BLOCK, max(self._each_bytes - offset, 0))))


def measure(effort: Effort) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="holdfast-checkpoints-") as folder, EdgeLab(folder) as lab:
        return [figure for system in effort.systems for figure in _on(lab, folder, system, effort)]


def _on(lab: EdgeLab, folder: str, system: str, effort: Effort) -> Iterator[Figure]:
    with _mounted(lab, folder, system, effort) as data:
        measured = {case.name: _case(lab, data, system, case, effort) for case in cases(effort)}
    empty_s = measured["empty"][0] if "empty" in measured else None
    for name, (down_s, forecast_s) in measured.items():
        note = f"the plan said {forecast_s:.1f} s"
        target = empty_s + MORE_S_MAX if name != "empty" and empty_s is not None else None
        yield Figure(f"{system}, {name}: down", "s", down_s, target=target, note=note)
        yield Figure(f"{system}, {name}: plan", "×", _apart(down_s, forecast_s), target=FORECAST_MAX)
    for kind in ("file", "files") if effort.large_bytes else ():
        large_s, small_s = measured[f"{kind}-large"][0], measured[f"{kind}-small"][0]
        yield Figure(f"{system}, {kind}: large beside small", "s", large_s, small_s, RATIO_MAX)


def _apart(one: float, other: float) -> float:
    return max(one, other) / max(min(one, other), 0.001)


def _case(lab: EdgeLab, data: str, system: str, case: Case, effort: Effort) -> tuple[float, float]:
    """Seconds without an answer, and what the plan said: medians."""
    name = f"{system}-{case.name}"
    _deploy(lab, name, IMAGES[0])
    volume = Volume(os.path.join(data, name, VOLUME), case, effort.changed_bytes)
    volume.fill()
    _deploy(lab, name, IMAGES[1])  # the agent learns how long this service takes
    down, said = [], []
    for number in range(effort.rounds):
        declare(lab, name, IMAGES[number % 2])
        said.append(_forecast(lab, name))
        with Watch(lab.addresses[EDGE], hostname(name)) as watch, changing(watch, volume.change, PAUSE_S):
            lab.holdfast("deploy", name, "--yes")
        down.append(watch.gap_s)
        print(f"{name}: down {down[-1]:.2f} s, the plan said {said[-1]:.1f} s", file=sys.stderr, flush=True)
    lab.holdfast("undeploy", name, "--yes")
    os.unlink(os.path.join(lab.fleet, "services", f"{name}.toml"))
    for place in (os.path.join(data, name), os.path.join(data, ".checkpoints", name)):
        subprocess.run(["rm", "-rf", place], check=True)  # a lab of ours; the disk is not larger than two of these
    return statistics.median(down), statistics.median(said)


def _deploy(lab: EdgeLab, name: str, image: str) -> None:
    declare(lab, name, image)
    lab.holdfast("deploy", name, "--yes")


def _forecast(lab: EdgeLab, name: str) -> float:
    """What a plan says about the stop. Figures follow a rollout within a minute; an empty volume has none."""
    give_up_s = time.monotonic() + 60.0
    while time.monotonic() < give_up_s:
        changes = json.loads(lab.holdfast("plan", "--json"))["changes"]
        notes = [note for change in changes if change["address"] == f"service.{name}" for note in change["notes"]]
        found = re.search(r"stops \S+ for about ([0-9.]+) s", " ".join(notes))
        if found is not None:
            return float(found.group(1))
        time.sleep(0.5)
    raise SystemExit(f"no plan said how long {name} stops")


@contextmanager
def _mounted(lab: EdgeLab, folder: str, system: str, effort: Effort) -> Iterator[str]:
    """The worker's data directory; for btrfs, a file system of its own in it."""
    data = lab.data_dir(WORKER)
    if system == "ext4":
        yield data
        return
    image = os.path.join(folder, f"{system}.image")
    with open(image, "wb") as file:
        file.truncate(3 * effort.large_bytes + (4 << 30))
    subprocess.run([f"mkfs.{system}", "-q", image], check=True)
    lab.inside(WORKER, "mount", "-o", "loop", image, "/srv")
    try:
        yield f"/proc/{lab.pids(WORKER)['node']}/root/srv"
    finally:
        lab.inside(WORKER, "umount", "--lazy", "/srv")
        os.unlink(image)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=FULL.rounds)
    parser.add_argument("--on", action="append", choices=FULL.systems)
    args = parser.parse_args(words)
    whole = FULL
    effort = Effort(
        whole.small_bytes, whole.large_bytes, whole.files, whole.changed_bytes, args.rounds,
        tuple(args.on or whole.systems),
    )  # fmt: skip
    found = measure(effort)
    print(table(found))
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
