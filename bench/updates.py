"""The last pass of a move beside rsync: a large tree in which little changed (issue 16); `python -m bench.updates`.

A pass is a second `pack` on one node and an `update` on the other. Here both are directories of one disk; rsync is told
to send differences, as it does between machines.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench import archive_tree
from bench.archive_tree import Size
from bench.archives import Laps, Ours
from bench.figures import Figure, table
from holdfast.ports.archive import Packed

PAGE = 4096
PARTS: dict[str, Any] = {"part_bytes": 65_536, "tidy": False, "urgent": True}
CHANGED = 0.01  # of the pages of the database
FILES_CHANGED = 10
SHARE_MAX = 0.17


@dataclass(frozen=True)
class Effort:
    size: Size
    rounds: int
    rsync: bool


FULL = Effort(archive_tree.FULL, 5, True)
QUICK = Effort(archive_tree.QUICK, 3, True)
SMALLEST = Effort(archive_tree.SMALLEST, 1, False)


def measure(folder: str, effort: Effort) -> Iterator[Figure]:
    tree, copy, peer = (os.path.join(folder, name) for name in ("tree", "copy", "peer"))
    os.mkdir(tree)
    os.mkdir(copy)
    archive_tree.make(tree, effort.size)
    laps, ours = Laps(), Ours(os.path.join(folder, "ours"), tree)
    packed: list[Packed] = []
    _pack(ours, packed)
    ours.unpack(packed[0], copy, keep=True)
    if effort.rsync:
        _rsync(tree, peer)
    for number in range(effort.rounds):
        changed = _change(tree, number)
        os.sync()
        time.sleep(0.1)
        laps.take("pack", lambda: _pack(ours, packed))
        laps.take("update", lambda: ours.update(packed[-1], copy))
        if effort.rsync:
            os.sync()
            laps.take("rsync", lambda: _rsync(tree, peer))
    _check(tree, copy)
    whole = laps.median("pack") + laps.median("update")
    rsync = laps.median("rsync") if effort.rsync else None
    name = f"tree of {packed[0].size_bytes >> 20:,} MiB, 1 % of a database changed"
    yield Figure(f"{name}: pack", "s", laps.median("pack"))
    yield Figure(f"{name}: update", "s", laps.median("update"))
    note = "sealed, compared, flushed : not" if effort.rsync else ""
    yield Figure(f"{name}: both : rsync --inplace", "s", whole, rsync, note=note)
    share = packed[-1].new_bytes / os.path.getsize(os.path.join(tree, "app.db"))
    yield Figure(f"{name}: shipped of the database", "×", share, target=SHARE_MAX if effort.rsync else None)
    yield Figure(f"{name}: shipped : changed", "MiB", packed[-1].new_bytes / 2**20, changed / 2**20)
    for path in (tree, copy, peer):
        shutil.rmtree(path, ignore_errors=True)


def _pack(ours: Ours, packed: list[Packed]) -> None:
    packed.append(ours.pack(False, **PARTS))


def _change(tree: str, seed: int) -> int:
    """Random pages in place, and a few small files; answers how many bytes."""
    chance, path = random.Random(seed), os.path.join(tree, "app.db")
    pages = chance.sample(range(os.path.getsize(path) // PAGE), max(1, int(os.path.getsize(path) * CHANGED) // PAGE))
    with open(path, "r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(chance.randbytes(PAGE))
    small = os.path.join(tree, "small", "00", "00")
    for name in sorted(os.listdir(small))[:FILES_CHANGED]:
        with open(os.path.join(small, name), "ab") as file:
            file.write(b"changed\n")
    return len(pages) * PAGE


def _rsync(tree: str, peer: str) -> None:
    command = ["rsync", "-a", "--inplace", "--no-whole-file", f"{tree}/", f"{peer}/"]
    subprocess.run(command, check=True)


def _check(tree: str, copy: str) -> None:
    """A figure of a wrong copy would be worth nothing."""
    subprocess.run(["diff", "-rq", "--no-dereference", tree, copy], check=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="holdfast-updates-") as folder:
        found = list(measure(folder, QUICK if args.quick else FULL))
    print(table(found))
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
