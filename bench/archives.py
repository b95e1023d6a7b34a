"""Archives beside `tar | zstd` and restic, in turns over one tree (issue 15); `python -m bench.archives`.

All have the same low priority, because the archiver has it. Targets are directories on the same disk.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from bench import archive_tree
from bench.archive_tree import Size
from bench.figures import Figure, table
from holdfast.adapters.archive.process import ProcessArchiver
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.model.archive import Header, Purpose
from holdfast.ports.archive import Packed, PackJob, UnpackJob, UpdateJob

FIRST_MIN, RESTORE_MIN = 0.6, 0.7  # of the peer's speed
RSS_MIB_MAX = 150
CHANGED_MAX = 0.45
LONG_SHARE_MAX = 0.05
LINEAR_MAX = 1.25
RANGES = 10

T = TypeVar("T")


@dataclass(frozen=True)
class Effort:
    size: Size
    rounds: int
    long_bytes: int
    many: tuple[int, int]  # small files
    restic: bool


FULL = Effort(archive_tree.FULL, 5, 4 << 30, (50_000, 200_000), True)
QUICK = Effort(archive_tree.QUICK, 3, 1 << 30, (10_000, 40_000), True)
SMALLEST = Effort(archive_tree.SMALLEST, 1, 40 << 20, (50, 200), False)


class Ours:
    """One service: its tree, its target, and what the archiver keeps for it."""

    def __init__(self, folder: str, tree: str) -> None:
        self._folder, self._tree = folder, tree
        self._pair = AgeIdentities().fresh()
        self._purpose = Purpose("f" * 64, "bench", 1)
        self._archiver = ProcessArchiver()
        self._sequence = 0
        self.peak_mib = 0.0
        os.makedirs(os.path.join(folder, "target"), exist_ok=True)

    def forget(self) -> None:
        shutil.rmtree(self._folder)
        os.makedirs(os.path.join(self._folder, "target"))

    def pack(self, vacuum: bool, **more: Any) -> Packed:
        self._sequence += 1
        job = PackJob(
            top=self._tree, home=os.path.join(self._folder, f"home-{vacuum}"), recipient=self._pair.recipient,
            header=Header(purpose=self._purpose, node="w1", sequence=self._sequence), vacuum=vacuum,
            **more,
        )  # fmt: skip
        return self._watched(lambda: asyncio.run(self._archiver.pack(job, self._ship, lambda progress: None)))

    def unpack(self, packed: Packed, top: str, keep: bool = False) -> None:
        job = UnpackJob(**self._restore(packed, top), keep=keep)
        self._watched(lambda: asyncio.run(self._archiver.unpack(job, self._fetch, lambda progress: None)))

    def update(self, packed: Packed, top: str) -> None:
        job = UpdateJob(**self._restore(packed, top), urgent=True)
        self._watched(lambda: asyncio.run(self._archiver.update(job, self._fetch, lambda progress: None)))

    def _restore(self, packed: Packed, top: str) -> dict[str, Any]:
        return {
            "manifest": packed.manifest, "digest": packed.digest, "identity": self._pair.identity,
            "purpose": self._purpose, "home": os.path.join(self._folder, "restore"), "top": top,
        }  # fmt: skip

    async def _ship(self, digest: str, content: bytes) -> None:
        await asyncio.to_thread(_write, os.path.join(self._folder, "target", digest), content)

    async def _fetch(self, digest: str) -> bytes:
        return await asyncio.to_thread(_read, os.path.join(self._folder, "target", digest))

    def _watched(self, act: Callable[[], T]) -> T:
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,))
        watch.start()
        try:
            return act()
        finally:
            over.set()
            watch.join()

    def _watch(self, over: threading.Event) -> None:
        """The peak of the archiver process, as the kernel counts it since its start."""
        while not over.wait(0.05):
            for pid in _children():
                self.peak_mib = max(self.peak_mib, _peak_mib(pid))


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _children() -> list[str]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return file.read().split()
    except OSError:
        return []


def _peak_mib(pid: str) -> float:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"archive.child" not in file.read():
                return 0.0
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM")), 0.0)
    except OSError:
        return 0.0


class Laps:
    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}

    def take(self, name: str, act: Callable[[], object]) -> None:
        began_s = time.perf_counter()
        act()
        self._taken.setdefault(name, []).append(time.perf_counter() - began_s)
        print(f"{name}: {self._taken[name][-1]:.2f} s", file=sys.stderr, flush=True)

    def median(self, name: str) -> float:
        return statistics.median(self._taken[name])

    def has(self, name: str) -> bool:
        return name in self._taken


def _shell(command: str, **environ: str) -> None:
    subprocess.run(
        ["nice", "-n", "10", "bash", "-o", "pipefail", "-c", command], check=True, env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


def measure(folder: str, effort: Effort) -> Iterator[Figure]:
    tree = os.path.join(folder, "tree")
    os.mkdir(tree)
    archive_tree.make(tree, effort.size)
    laps, ours = Laps(), Ours(os.path.join(folder, "ours"), tree)
    for number in range(effort.rounds):
        ours.forget()
        _round(folder, tree, ours, laps, number, effort.restic)
    yield from _figures(laps, effort.size)
    yield Figure("archive, peak memory", "MiB", ours.peak_mib, target=RSS_MIB_MAX)
    shutil.rmtree(tree)
    ours.forget()
    yield from _long(os.path.join(folder, "long"), effort.long_bytes)
    yield from _many(os.path.join(folder, "many"), effort.many)


def _round(folder: str, tree: str, ours: Ours, laps: Laps, number: int, restic: bool) -> None:
    peer, repo = os.path.join(folder, "peer.tar.zst"), os.path.join(folder, "restic")
    packed: list[Packed] = []
    secret = {"RESTIC_PASSWORD": "x", "RESTIC_REPOSITORY": repo, "RESTIC_CACHE_DIR": os.path.join(folder, "cache")}
    backup = f"restic backup -q {tree}"
    os.sync()
    laps.take("tar", lambda: _shell(f"tar c -C {tree} . | zstd -3 -T0 -q -f -o {peer}"))
    laps.take("first", lambda: packed.append(ours.pack(False)))
    laps.take("first, vacuum", lambda: ours.pack(True))
    laps.take("unchanged", lambda: ours.pack(True))
    if restic:
        shutil.rmtree(repo, ignore_errors=True)
        _shell("restic init -q", **secret)
        laps.take("restic first", lambda: _shell(backup, **secret))
        laps.take("restic unchanged", lambda: _shell(backup, **secret))
    for name, act in (
        ("untar", lambda top: _shell(f"zstd -dcq {peer} | tar x -C {top}")),
        ("untar, synced", lambda top: _shell(f"zstd -dcq {peer} | tar x -C {top} && sync -f {top}")),
        ("unpack", lambda top: ours.unpack(packed[0], top)),
    ):
        top = os.path.join(folder, "restored")
        os.mkdir(top)
        os.sync()
        laps.take(name, partial(act, top))
        shutil.rmtree(top)
    archive_tree.change(tree, 0.01, number)
    time.sleep(0.1)
    laps.take("changed", lambda: ours.pack(False))
    laps.take("changed, vacuum", lambda: ours.pack(True))
    if restic:
        laps.take("restic changed", lambda: _shell(backup, **secret))


def _figures(laps: Laps, size: Size) -> Iterator[Figure]:
    whole = (size.small_files * size.small_bytes + size.text_bytes + size.noise_bytes + size.database_bytes) / 2**20

    def speed(name: str) -> float:
        return whole / laps.median(name)

    note = "sealed and digested : not"
    yield Figure("archive, first : tar and zstd -3 -T0", "MiB/s", speed("first"), speed("tar"), FIRST_MIN, True, note)
    yield Figure("archive, first with vacuum and check", "MiB/s", speed("first, vacuum"), speed("tar"), note=note)
    note = "flushed, compared, opened : nothing of it"
    yield Figure("restore : zstd -d and tar x", "MiB/s", speed("unpack"), speed("untar"), RESTORE_MIN, True, note)
    note = "flushed : flushed"
    yield Figure(
        "restore : zstd -d and tar x, flushed", "MiB/s", speed("unpack"), speed("untar, synced"), None, True, note
    )
    yield Figure("archive, 1 % changed : first", "s", laps.median("changed"), laps.median("first"), CHANGED_MAX)
    yield Figure("archive, 1 % changed, with vacuum", "s", laps.median("changed, vacuum"))
    if laps.has("restic first"):
        yield Figure("archive, first : restic", "s", laps.median("first"), laps.median("restic first"))
        yield Figure("archive, 1 % changed : restic", "s", laps.median("changed"), laps.median("restic changed"), 1.0)
        yield Figure("archive, unchanged : restic", "s", laps.median("unchanged"), laps.median("restic unchanged"), 1.0)
    else:
        yield Figure("archive, unchanged", "s", laps.median("unchanged"))


def _long(folder: str, size: int) -> Iterator[Figure]:
    """One file; 1 % of it changes in place, in ten ranges."""
    tree = os.path.join(folder, "tree")
    os.makedirs(tree)
    path = os.path.join(tree, "long")
    piece = os.urandom(8 << 20)
    with open(path, "wb") as file:
        for at in range(0, size, len(piece)):
            file.write(at.to_bytes(8, "big") + piece[8 : min(len(piece), size - at)])
    os.sync()
    laps, ours = Laps(), Ours(os.path.join(folder, "ours"), tree)
    packed: list[Packed] = []
    laps.take("long, first", lambda: packed.append(ours.pack(True)))
    with open(path, "r+b") as file:
        for number in range(RANGES):
            file.seek(number * (size // RANGES))
            file.write(os.urandom(size // 100 // RANGES))
    time.sleep(0.1)
    laps.take("long, changed", lambda: packed.append(ours.pack(True)))
    share = packed[1].new_bytes / packed[0].new_bytes
    name = f"file of {size >> 20:,} MiB"
    yield Figure(f"{name}, 1 % changed: shipped", "×", share, target=LONG_SHARE_MAX)
    yield Figure(f"{name}, first", "s", laps.median("long, first"))
    yield Figure(f"{name}, 1 % changed", "s", laps.median("long, changed"))
    yield Figure(f"{name}, peak memory", "MiB", ours.peak_mib, target=RSS_MIB_MAX)
    shutil.rmtree(folder)


def _many(folder: str, counts: tuple[int, int]) -> Iterator[Figure]:
    taken: list[float] = []
    for count in counts:
        tree = os.path.join(folder, str(count), "tree")
        for number in range(count):
            if number % 1000 == 0:
                os.makedirs(os.path.join(tree, f"{number // 1000:04}"))
            with open(os.path.join(tree, f"{number // 1000:04}", f"{number}"), "wb") as file:
                file.write(b"%d " % number * 40)
        os.sync()
        laps, ours = Laps(), Ours(os.path.join(folder, str(count), "ours"), tree)
        laps.take(f"{count} files", partial(ours.pack, True))
        laps.take(f"{count} files, unchanged", partial(ours.pack, True))
        taken.append(laps.median(f"{count} files"))
        yield Figure(f"{count:,} small files, first", "s", taken[-1])
        yield Figure(f"{count:,} small files, unchanged", "s", laps.median(f"{count} files, unchanged"))
        yield Figure(f"{count:,} small files, peak memory", "MiB", ours.peak_mib, target=RSS_MIB_MAX)
        shutil.rmtree(os.path.join(folder, str(count)))
    small, large = counts
    yield Figure(
        f"{large:,} : {small:,} small files, each", "µs", taken[1] / large * 1e6, taken[0] / small * 1e6, LINEAR_MAX
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="holdfast-archives-") as folder:
        effort = QUICK if args.quick else FULL
        found = list(measure(folder, replace(effort, rounds=args.rounds or effort.rounds)))
    print(table(found))
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
