"""Updates of real directories: byte for byte what was packed, with owners, modes, times, attributes, links and holes,
also after a crash at any moment (issue 16)."""

import asyncio
import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.adapters.archive import source
from holdfast.adapters.archive.process import COMMAND, ProcessArchiver
from holdfast.adapters.sealing import age_stream
from holdfast.errors import Conflict, Failed
from holdfast.ports.archive import Packed
from tests.fleets.archiver_here import unpack_here, update_here
from tests.fleets.archives import Place, facts, process_place
from tests.fleets.counts import SOAK
from tests.fleets.random_trees import LONG, RandomTree

FINE: dict[str, Any] = {"part_bytes": 65_536, "vacuum": False, "tidy": False}
TREES, PASSES = (100, 5) if SOAK else (20, 3)
CRASHES = 25 if SOAK else 8
KILLS = range(1, 100, 4) if SOAK else (2, 9, 30)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return process_place(tmp_path)


def holes(top: Path) -> dict[bytes, source.Extents]:
    """Where the data of each file with holes is."""
    found = {}
    for folder, _, names in os.walk(os.fsencode(top)):
        for path in (os.path.join(folder, name) for name in names):
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                    extents = source.extents_of(file.fileno(), os.fstat(file.fileno()))
                if extents:
                    found[os.path.relpath(path, os.fsencode(top))] = extents
    return found


def check(place: Place, name: str = "copy") -> None:
    copy = place.folder / name
    assert facts(copy) == facts(place.top)
    assert holes(copy) == holes(place.top)


@pytest.mark.parametrize("seed", range(TREES))
def test_a_random_tree_follows_random_changes(place: Place, seed: int) -> None:
    tree = RandomTree(str(place.top), seed)
    tree.steps(40)
    place.unpack(place.pack(**FINE), "copy", keep=True)
    check(place)
    for _ in range(PASSES):
        tree.steps(tree.chance.randrange(1, 30))
        place.update(place.pack(**FINE), "copy")
        check(place)


def test_a_database_in_use_is_copied_as_it_lies_there(place: Place) -> None:
    """The last pass is of a service that is stopped: then the copy is a database that SQLite opens."""
    with sqlite3.connect(place.top / "app.db", isolation_level=None) as using:
        using.execute("PRAGMA journal_mode=WAL")
        using.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
        for number in range(4):
            using.executemany("INSERT INTO t (b) VALUES (?)", ((os.urandom(300),) for _ in range(3000)))
            using.execute("UPDATE t SET b = 'x' WHERE a % 700 = ?", (number,))
            packed = place.pack(**FINE)
            assert packed.vacuumed == ()
            place.update(packed, "copy") if number else place.unpack(packed, "copy", keep=True)
            check(place)
    assert sorted(os.listdir(place.folder / "copy")) == ["app.db", "app.db-shm", "app.db-wal"]
    using.close()
    with sqlite3.connect(place.folder / "copy" / "app.db") as copy:
        assert copy.execute("SELECT count(*) FROM t").fetchone() == (12_000,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    copy.close()


def test_of_a_long_file_the_changed_parts_are_shipped_and_written(place: Place) -> None:
    """Issue 16: 1 % of the pages of a file, changed in place, are about 15 % of it in parts of 64 KiB."""
    long, chance = place.top / "long", random.Random(1)
    long.write_bytes(chance.randbytes(40 << 20))
    first = place.pack(**FINE)
    place.unpack(first, "copy", keep=True)
    inode = os.stat(place.folder / "copy" / "long").st_ino
    with open(long, "r+b") as file:
        for page in chance.sample(range(10_240), 102):
            file.seek(page * 4096)
            file.write(chance.randbytes(4096))
    second = place.pack(**FINE)
    assert 0.05 * first.new_bytes < second.new_bytes < 0.18 * first.new_bytes
    fetched: list[str] = []

    async def fetch(digest: str) -> bytes:
        fetched.append(digest)
        return place.store[digest]

    place.update(second, "copy", fetch)
    check(place)
    assert set(fetched) == set(place.shipped), "packs of other parts are not needed"
    assert os.stat(place.folder / "copy" / "long").st_ino == inode, "in place"


def test_an_end_that_becomes_a_hole_is_one(place: Place) -> None:
    """The file ends within a block."""
    size = 2 * LONG + 100
    for content in (random.Random(5).randbytes(size), b"begin" * 100):
        (place.top / "long").write_bytes(content)
        os.truncate(place.top / "long", size)
        packed = place.pack(**FINE)
        place.update(packed, "copy") if (place.folder / "copy").exists() else place.unpack(packed, "copy", keep=True)
        check(place)


def test_another_size_of_parts_packs_long_files_anew(place: Place) -> None:
    long, chance = place.top / "long", random.Random(2)
    long.write_bytes(chance.randbytes(20 << 20))
    place.write({"short": b"short" * 1000})
    sizes: list[Any] = [4_194_304, 65_536, 131_072, 4_194_304]
    place.unpack(place.pack(**{**FINE, "part_bytes": sizes[0]}), "copy", keep=True)
    for size in sizes[1:]:
        packed = place.pack(**{**FINE, "part_bytes": size})
        assert packed.new_bytes > 20 << 20
        place.update(packed, "copy")
        check(place)
        place.unpack(packed, f"fresh-{size}", home=str(place.folder / "other-home"))
        check(place, f"fresh-{size}")
        assert place.verify(packed, home=str(place.folder / "other-home")) == []
        shutil.rmtree(place.folder / f"fresh-{size}")


def test_a_pass_that_is_not_tidy_ships_what_changed_and_no_more(place: Place) -> None:
    chance = random.Random(3)
    place.write({f"f{n}": chance.randbytes(50_000) for n in range(10)})
    place.pack(**FINE)
    place.write({f"f{n}": chance.randbytes(50_000) for n in range(9)})
    place.pack(**FINE)
    assert place.pack(**FINE).new_packs == 0
    assert place.pack(**{**FINE, "tidy": True}).new_packs == 1


def test_an_emptied_or_other_directory_is_refused(place: Place) -> None:
    place.write({"a": b"one", "d/b": b"two"})
    packed = place.pack(**FINE)
    place.unpack(packed, "copy", keep=True)
    copy = place.folder / "copy"
    shutil.copytree(copy, place.folder / "another")
    shutil.rmtree(copy / "d")
    for name in ("copy", "another"):
        with pytest.raises(Conflict) as found:
            place.update(packed, name)
        assert found.value.code == "not_the_tree"
    shutil.rmtree(copy)
    place.unpack(packed, "copy", keep=True)
    place.update(packed, "copy")
    check(place)


# ---- crashes


class Crash(BaseException):
    """As if the process had ended there."""


WRITES = ("unlink", "rmdir", "mkdir", "link", "symlink", "pwrite", "ftruncate", "fchown", "fchmod", "utime", "rename")


@contextmanager
def crashing(after: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """No change of the disk takes effect after so many of them. Answers how many there were."""
    count, lock = 0, threading.Lock()

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **more: Any) -> Any:
            nonlocal count
            with lock:
                count += 1
                if count > after:
                    raise Crash
            return call(*args, **more)

        return change

    with monkeypatch.context() as patch:
        for name in WRITES:
            patch.setattr(os, name, counted(getattr(os, name)))
        yield lambda: count


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(20 if SOAK else 4))
def test_a_crash_at_any_change_of_the_disk_is_made_good(
    place: Place, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same call, or by one with a later manifest, which may crash, too."""
    tree, changes, crashes = RandomTree(str(place.top), 1000 + seed), 60, 0
    tree.steps(40)
    place.unpack(place.pack(**FINE), "copy", keep=True)
    for _ in range(CRASHES):
        tree.steps(tree.chance.randrange(3, 25))
        packed = place.pack(**FINE)
        for _ in range(tree.chance.randrange(1, 4)):
            with crashing(tree.chance.randrange(1, changes), monkeypatch), suppress(Crash):
                crashes += 1
                update_here(place, packed)
                crashes -= 1
            if tree.chance.random() < 0.4:
                tree.steps(3)
                packed = place.pack(**FINE)
        with crashing(10**9, monkeypatch) as counted:
            update_here(place, packed)
        changes = max(counted(), 20)
        check(place)
    assert crashes >= CRASHES, "the test bites"


def test_what_an_interrupted_update_changed_is_not_taken_for_what_was_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second update is back to the first tree, and crashes, too: both are remembered."""
    place.write({"d/changed": b"one", "d/removed": b"two", "stays": b"three"})
    before = place.pack(**FINE)
    place.write({"d/changed": b"other", "d/made": b"new"})
    place.remove("d/removed")
    after = place.pack(**FINE)
    back = forged_again(place, before)
    for first in range(1, 30, 4 if not SOAK else 1):
        for second in range(1, 30, 4 if not SOAK else 1):
            name = f"copy-{first}-{second}"
            unpack_here(place, before, name)
            there = facts(place.folder / name)
            for packed, at in ((after, first), (back, second)):
                with crashing(at, monkeypatch), suppress(Crash):
                    update_here(place, packed, name)
            update_here(place, before, name)
            assert facts(place.folder / name) == there, (first, second)
            shutil.rmtree(place.folder / name)


def forged_again(place: Place, packed: Packed) -> Packed:
    """The same lines under another digest."""
    plain = age_stream.Identity(place.pair.identity).opened(packed.manifest)
    manifest = age_stream.sealed(b"".join(plain), place.pair.recipient)
    return msgspec.structs.replace(packed, manifest=manifest, digest=sha256(manifest).hexdigest())


def killing(call: str, number: int) -> ProcessArchiver:
    inject = f"inject={call}:signal=SIGKILL:when={number}"
    return ProcessArchiver(("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject, *COMMAND))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", ["pwrite64", "unlinkat", "openat", "fsync", "utimensat", "rename"])
def test_an_update_that_is_killed_ends_right_the_next_time(place: Place, call: str) -> None:
    tree, whole, killed = RandomTree(str(place.top), 7), place.archiver, 0
    tree.steps(60)
    (place.top / "long").write_bytes(random.Random(4).randbytes(2 * LONG))
    place.unpack(place.pack(**FINE), "copy", keep=True)
    for number in KILLS:
        tree.steps(25)
        packed = place.pack(**FINE)
        place.archiver = killing(call, number)
        try:
            place.update(packed, "copy")
        except Failed as trouble:
            killed += 1
            assert trouble.code == "archiver_died", trouble
        place.archiver = whole
        place.update(packed, "copy")
        check(place)
    assert killed, "the test bites"


def test_an_update_that_is_cancelled_ends_right_the_next_time(place: Place) -> None:
    place.write({f"f{n}": bytes([n]) * 90_000 for n in range(9)})
    place.unpack(place.pack(**FINE), "copy", keep=True)
    place.write({f"f{n}": bytes([n + 1]) * 80_000 for n in range(9)})
    place.remove("f8")
    packed = place.pack(**FINE)

    async def never(digest: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def cancel() -> None:
        job = place.update_job(packed, "copy")
        async with asyncio.timeout(3):
            await place.archiver.update(job, never, lambda progress: None)

    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    place.update(packed, "copy")
    check(place)


@pytest.mark.parametrize(("urgent", "wanted"), [(False, 10), (True, 0)])
def test_only_an_urgent_job_does_not_yield(place: Place, urgent: bool, wanted: int) -> None:
    place.write({"f": b"content"})
    mine, found = os.getpriority(os.PRIO_PROCESS, 0), list[int]()

    async def look() -> None:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            found.append(max(os.getpriority(os.PRIO_PROCESS, int(pid)) for pid in file.read().split()))

    async def ship(digest: str, content: bytes) -> None:
        await look()
        await place.ship(digest, content)

    async def fetch(digest: str) -> bytes:
        await look()
        return place.store[digest]

    packed = asyncio.run(place.archiver.pack(place.job(urgent=urgent), ship, lambda progress: None))
    place.unpack(packed, "copy", fetch, urgent=urgent, keep=True)
    assert found == [min(mine + wanted, 19)] * 2
