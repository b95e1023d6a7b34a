"""How long a move stops a service, seen by a client of its edge, beside a restart of it in the same run (issue 16).
`python -m bench.move_pauses` prints a table; needs root.

Until the service stops, a writer changes one percent of the pages of its database, in place, again and again: that is
what is left for the time in which nothing serves.
"""

import argparse
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench import archive_tree
from bench.edge_client import Watch
from bench.edge_lab import EDGE, IMAGES, WORKER, EdgeLab
from bench.figures import Figure, table
from bench.volume_service import VOLUME, changing, declare, hostname

OTHER = "w2"
MORE_S_MAX = 1.5  # than a restart
RATIO_MAX = 1.3  # four times as much data, the same change
TINY_S_MAX = 2.5
PAGE, CHANGED = 4096, 0.01
PAUSE_S = 1.0
MIB = 1 << 20


@dataclass(frozen=True)
class Effort:
    sizes: tuple[int, ...]  # of files beside the database; the first has no database
    database_bytes: int
    rounds: int


FULL = Effort((10 * MIB, 824 * MIB, 3896 * MIB), 200 * MIB, 3)
QUICK = Effort(FULL.sizes, FULL.database_bytes, 1)
SMALLEST = Effort((MIB,), 0, 1)


class Database:
    """In a volume; without bytes there is none."""

    def __init__(self, folder: str, size_bytes: int) -> None:
        self._path = os.path.join(folder, "app.db") if size_bytes else ""
        self._pages = max(1, int(size_bytes * CHANGED) // PAGE)
        self._chance = random.Random(16)

    def change(self, _watch: Watch) -> None:
        if not self._path:
            return
        database = sqlite3.connect(self._path)
        (last,) = database.execute("SELECT max(id) FROM facts").fetchone()
        numbers = self._chance.sample(range(1, last + 1), min(self._pages, last))
        rows = ((self._chance.randbytes(700), number) for number in numbers)
        database.executemany("UPDATE facts SET content = ? WHERE id = ?", rows)
        database.commit()
        database.close()


def measure(effort: Effort) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="holdfast-pauses-") as folder, EdgeLab(folder, f",{OTHER}:worker") as lab:
        return list(_figures(lab, effort))


def _figures(lab: EdgeLab, effort: Effort) -> Iterator[Figure]:
    moved: list[float] = []
    for number, size in enumerate(effort.sizes):
        database = effort.database_bytes if number else 0
        restart_s, move_s = _case(lab, f"s{number}", size, database, effort.rounds)
        moved.append(move_s)
        name = f"move of {(size + database) / MIB:,.0f} MiB: down"
        note = f"a restart: {restart_s:.2f} s"
        yield Figure(name, "s", move_s, target=restart_s + MORE_S_MAX, note=note)
        if not number:
            yield Figure(f"{name}, of itself", "s", move_s, target=TINY_S_MAX)
    if len(moved) > 2:
        yield Figure("the largest beside the one before", "s", moved[-1], moved[-2], RATIO_MAX)


def _case(lab: EdgeLab, name: str, size: int, database: int, rounds: int) -> tuple[float, float]:
    """Seconds without an answer of a restart and of a move: medians."""
    declare(lab, name, IMAGES[0])
    lab.holdfast("deploy", name, "--yes")
    places = {node: os.path.join(lab.data_dir(node), name, VOLUME) for node in (WORKER, OTHER)}
    archive_tree.make(places[WORKER], archive_tree.Size(0, 0, 0, size, database))
    restarts, moves = [], []
    for number in range(rounds):
        source, target = (WORKER, OTHER) if number % 2 == 0 else (OTHER, WORKER)
        with Watch(lab.addresses[EDGE], hostname(name)) as watch:
            lab.holdfast("restart", name, "--yes")
        restarts.append(watch.gap_s)
        change = Database(places[source], database).change
        with Watch(lab.addresses[EDGE], hostname(name)) as watch, changing(watch, change, PAUSE_S):
            lab.holdfast("migrate", name, "--to", target, "--force", "--yes")
        moves.append(watch.gap_s)
        subprocess.run(["diff", "-rq", places[source], places[target]], check=True)
        print(f"{name}: restart {restarts[-1]:.2f} s, move {moves[-1]:.2f} s", file=sys.stderr, flush=True)
    return statistics.median(restarts), statistics.median(moves)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=FULL.rounds)
    parser.add_argument("--smallest", action="store_true")
    args = parser.parse_args(words)
    effort = SMALLEST if args.smallest else Effort(FULL.sizes, FULL.database_bytes, args.rounds)
    found = measure(effort)
    print(table(found))
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
