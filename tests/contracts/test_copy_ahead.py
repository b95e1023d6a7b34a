"""A copy that is made while the service runs, and what a checkpoint adds to it. N12"""

import errno
import mmap
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.storage import blocks, checkpoints, copying, held, stamps, tree
from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.errors import Failed, Invalid
from holdfast.ports.storage import Ahead
from tests.contracts.test_storage import Disk, discardable, disk, small  # noqa: F401 (fixtures)


def quiet(moved_bytes: int) -> None:
    pass


# ---- both products


def test_a_copy_ahead_is_no_checkpoint_and_the_checkpoint_has_what_came_later(disk: Disk) -> None:  # noqa: F811
    disk.fill("web", {"a": b"1", "b": b"22"})
    assert isinstance(disk.storage.copy_ahead("web", "c1", (), quiet), Ahead)
    assert disk.storage.checkpoints() == []
    disk.fill("web", {"a": b"changed", "b": b"22", "c": b"new"})
    made = disk.storage.checkpoint("web", "c1", 5.0)
    assert [disk.read("web", "c1", name) for name in ("a", "b", "c")] == [b"changed", b"22", b"new"]
    assert (made.size_bytes, made.files) == (12, 3)


def test_a_copy_ahead_may_be_dropped_and_no_checkpoint_goes_with_it(disk: Disk) -> None:  # noqa: F811
    disk.fill("web", {"a": b"1"})
    made = disk.storage.checkpoint("web", "c1", 5.0)
    disk.storage.copy_ahead("web", "c2", (), quiet)
    for _ in range(2):
        disk.storage.drop_ahead("web")
    disk.storage.drop_ahead("nothing")
    assert disk.storage.checkpoints() == [made] and disk.read("web", "c1", "a") == b"1"


def test_a_volume_that_is_off_is_not_copied(disk: Disk) -> None:  # noqa: F811
    for name in ("cache", "files"):
        disk.storage.volume("web", name)
    disk.fill("web", {"cache/big": b"12345", "files/a": b"1"})
    disk.storage.copy_ahead("web", "c1", ("cache",), quiet)
    made = disk.storage.checkpoint("web", "c1", 5.0, ("cache",))
    assert (made.size_bytes, made.off) == (1, ("cache",)) and disk.read("web", "c1", "files/a") == b"1"
    with pytest.raises((KeyError, FileNotFoundError)):
        disk.read("web", "c1", "cache/big")


def test_what_a_checkpoint_needs_is_measured(disk: Disk) -> None:  # noqa: F811
    assert disk.storage.need("web") is None
    disk.fill("web", {"a": b"1" * 5000, "b": b"22"})
    found = disk.storage.need("web")
    assert found is not None and (found.size_bytes, found.files) == (5002, 2)
    assert found.written_bytes > 0 and found.room_bytes > 0 and found.disk_bytes > 0
    with pytest.raises(Invalid):
        disk.storage.need("../etc")


# ---- the real file system


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "srv" / "web").mkdir(parents=True)
    yield tmp_path / "srv"


def storage(root: Path) -> DirectoryStorage:
    return DirectoryStorage(str(root), "w1")


def settle() -> None:
    """A file that is younger than the clock's tick has no stamp."""
    time.sleep(2 * stamps.RECENT_NS / 1e9)


def pictured(top: Path) -> dict[str, tuple[object, ...]]:
    """Everything about every entry that a copy must have, hard links inside the tree among it."""
    found: dict[str, tuple[object, ...]] = {}
    numbers: dict[int, str] = {}
    for path in [top, *sorted(top.rglob("*"))]:
        about, name = path.lstat(), str(path.relative_to(top))
        attributes = tuple(
            (one, os.getxattr(path, one, follow_symlinks=False)) for one in os.listxattr(path, follow_symlinks=False)
        )
        content: object = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        first = numbers.setdefault(about.st_ino, name) if path.is_file() and not path.is_symlink() else name
        found[name] = (about.st_mode, about.st_uid, about.st_gid, about.st_mtime_ns, attributes, content, first)
    return found


def test_only_what_changed_is_written_while_nothing_runs(root: Path) -> None:
    web = root / "web"
    for number in range(300):
        (web / f"f{number}").write_bytes(os.urandom(1000))
    (web / "big").write_bytes(os.urandom(8 << 20))
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    with open(web / "big", "r+b") as file:
        file.seek(3 << 20)
        file.write(b"changed in place")
    (web / "f7").write_bytes(b"other")
    written: list[int] = []
    moved = copying.update

    def update(*given: object) -> object:
        done = moved(*given)  # type: ignore[arg-type]
        written.append(done[0].written_bytes)
        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(copying, "update", update)
        made = storage(root).checkpoint("web", "c1", 5.0)
    assert pictured(Path(made.path)) == pictured(web)
    assert written[0] <= 2 * (64 << 10) + 5, "the big file is not written again"


def test_a_file_that_may_change_in_the_tick_of_the_copy_has_no_stamp(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older kernels take times from a clock that ticks: a file may change twice and keep the times of the first."""
    file, shelf = root / "web" / "a", root / ".checkpoints" / "web"
    file.write_bytes(b"one")
    os.link(file, root / "web" / "b")
    monkeypatch.setattr(stamps, "RECENT_NS", 3600 * 10**9)  # however slow this machine is
    storage(root).copy_ahead("web", "c1", (), quiet)
    found = os.open(shelf, os.O_RDONLY)
    try:
        assert not {stamps.stamp(name, file.stat()) for name in "ab"} & stamps.read(found, "c1")
        monkeypatch.setattr(stamps, "RECENT_NS", 10**6)
        settle()
        storage(root).copy_ahead("web", "c1", (), quiet)
        assert {stamps.stamp(name, file.stat()) for name in "ab"} <= stamps.read(found, "c1")
    finally:
        os.close(found)


def test_a_page_that_a_program_has_mapped_is_not_missed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is dirty already changes without a new time; the copy writes it back first, so that it gets one."""
    path, real = root / "web" / "mapped", blocks.flush_all
    path.write_bytes(b"\0" * 8192)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8192) as memory:

        def flush_all(handle: int) -> None:
            memory[0:3] = b"two"
            real(handle)

        memory[0:3] = b"one"
        settle()
        with monkeypatch.context() as patched:
            patched.setattr(blocks, "flush_all", flush_all)
            storage(root).copy_ahead("web", "c1", (), quiet)
        made = storage(root).checkpoint("web", "c1", 1.0)
    assert (Path(made.path) / "mapped").read_bytes()[:3] == b"two"


def test_a_file_that_sets_its_times_back_is_seen(root: Path) -> None:
    file = root / "web" / "a"
    file.write_bytes(b"one")
    os.utime(file, ns=(10**18, 10**18))
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    file.write_bytes(b"two")
    os.utime(file, ns=(10**18, 10**18))
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert (Path(made.path) / "a").read_bytes() == b"two"


def test_checkpoints_share_files_with_each_other_and_never_with_the_data(root: Path) -> None:
    web = root / "web"
    for name in ("kept", "changed", "gone"):
        (web / name).write_bytes(name.encode())
    settle()
    first = storage(root).checkpoint("web", "c1", 1.0)
    (web / "changed").write_bytes(b"later")
    (web / "gone").unlink()
    need = storage(root).need("web")
    assert need is not None and need.written_bytes == len(b"later"), "what is shared takes no space"
    second = storage(root).checkpoint("web", "c2", 2.0)
    one, two = Path(first.path), Path(second.path)
    assert (one / "kept").samefile(two / "kept") and not (two / "kept").samefile(web / "kept")
    assert (one / "changed").read_bytes() == b"changed" and (two / "changed").read_bytes() == b"later"
    assert (one / "gone").exists() and not (two / "gone").exists()
    (web / "kept").write_bytes(b"written by the service")
    assert (one / "kept").read_bytes() == b"kept"
    storage(root).discard(discardable(first))
    assert pictured(two).keys() == {".", "kept", "changed"} and (two / "kept").read_bytes() == b"kept"


def test_a_file_that_has_as_many_names_as_a_file_can_have_is_copied(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **named: object) -> None:
        raise OSError(errno.EMLINK, "too many links")

    (root / "web" / "a").write_bytes(b"1")
    settle()
    first = storage(root).checkpoint("web", "c1", 1.0)
    monkeypatch.setattr(os, "link", full)
    second = storage(root).checkpoint("web", "c2", 2.0)
    one, two = Path(first.path) / "a", Path(second.path) / "a"
    assert two.read_bytes() == b"1" and not one.samefile(two)


def test_a_shared_file_that_changes_before_the_stop_is_not_written_over(root: Path) -> None:
    """The copy ahead shares it with the checkpoint before: writing into it would change that one."""
    file = root / "web" / "a"
    file.write_bytes(b"x" * (2 << 20))
    settle()
    first = storage(root).checkpoint("web", "c1", 1.0)
    storage(root).copy_ahead("web", "c2", (), quiet)
    with open(file, "r+b") as opened:
        opened.write(b"changed")
    second = storage(root).checkpoint("web", "c2", 2.0)
    assert (Path(first.path) / "a").read_bytes() == b"x" * (2 << 20)
    assert (Path(second.path) / "a").read_bytes()[:8] == b"changedx"


def test_a_big_young_file_is_not_shared_so_that_a_change_costs_its_blocks_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "SHARED_MAX_BYTES", 1 << 20)
    file = root / "web" / "big"
    file.write_bytes(os.urandom(4 << 20))
    (root / "web" / "small").write_bytes(bytes(1 << 20))
    settle()
    first = storage(root).checkpoint("web", "c1", 1.0)
    second = storage(root).checkpoint("web", "c2", 2.0)
    assert (Path(first.path) / "small").samefile(Path(second.path) / "small")
    assert not (Path(first.path) / "big").samefile(Path(second.path) / "big")
    need = storage(root).need("web")
    assert need is not None and need.written_bytes >= 4 << 20, "it is copied whole, and the plan says so"
    monkeypatch.setattr(copying, "OLD_NS", 0)
    need = storage(root).need("web")
    assert need is not None and need.written_bytes == 0
    third = storage(root).checkpoint("web", "c3", 3.0)
    assert (Path(third.path) / "big").samefile(Path(second.path) / "big")


def test_the_last_byte_and_a_new_hole_of_a_big_file_are_not_missed(root: Path) -> None:
    file = root / "web" / "big"
    file.write_bytes(os.urandom((2 << 20) + 1))
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    with open(file, "r+b") as opened:
        opened.seek(2 << 20)
        opened.write(bytes([file.read_bytes()[-1] ^ 1]))
    told: list[int] = []
    storage(root).copy_ahead("web", "c1", (), told.append)
    assert sum(told) == 1, "the block at the end has one byte"
    subprocess.run(["fallocate", "--punch-hole", "--offset", "65536", "--length", "131072", str(file)], check=True)
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert (Path(made.path) / "big").read_bytes() == file.read_bytes()


def test_where_the_kernel_copies_no_ranges_and_makes_no_holes_bytes_are_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*given: object) -> int:
        raise OSError(errno.EXDEV, "cannot")

    class Library:
        """The C library of a file system without holes."""

        def __init__(self, real: Any) -> None:
            self.real = real

        def fallocate(self, *given: object) -> int:
            return -1

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    monkeypatch.setattr(os, "copy_file_range", cannot)
    monkeypatch.setattr(blocks, "clone", lambda *ignored: False)
    monkeypatch.setattr(blocks, "_libc", Library(blocks._libc))
    file = root / "web" / "big"
    with open(file, "wb") as new:
        new.write(os.urandom((3 << 20) + 7))
        new.seek(40 << 20)
        new.write(b"end")
    settle()
    told: list[int] = []
    storage(root).copy_ahead("web", "c1", (), told.append)
    copied = root / ".checkpoints" / "web" / ".half-c1" / "big"
    assert (3 << 20) + 7 <= sum(told) < 4 << 20 and copied.read_bytes() == file.read_bytes()
    subprocess.run(["fallocate", "--punch-hole", "--offset", "65536", "--length", "2228224", str(file)], check=True)
    made = storage(root).checkpoint("web", "c1", 1.0)
    copied = Path(made.path) / "big"
    assert copied.read_bytes() == file.read_bytes() and copied.stat().st_blocks * 512 < 8 << 20, "a hole stays one"


def test_big_files_are_compared_in_pieces_each_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_CHUNK", 1 << 20)
    file = root / "web" / "big"
    file.write_bytes(os.urandom(5 << 20))
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    with open(file, "r+b") as opened:
        opened.write(os.urandom(5 << 20))
    compare, seen = blocks._compare_all, list[tuple[int, int]]()

    def compared(source: int, target: int, pieces: list[tuple[int, int]]) -> int:
        seen.extend(pieces)
        return compare(source, target, pieces)

    monkeypatch.setattr(blocks, "_compare_all", compared)
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert (Path(made.path) / "big").read_bytes() == file.read_bytes()
    assert sorted(seen) == [(at << 20, at + 1 << 20) for at in range(5)]


def test_what_could_not_be_read_of_the_copy_is_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be compared with what another block left in memory."""
    file = root / "web" / "big"
    file.write_bytes(b"1" * (1 << 20))
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    with open(file, "r+b") as opened:
        opened.seek(1 << 19)
        opened.write(bytes(1 << 19))
    read, calls = os.preadv, list[int]()

    def half(handle: int, buffers: Any, at: int) -> int:
        calls.append(handle)
        return read(handle, buffers if len(calls) % 2 else [buffers[0][: len(buffers[0]) // 2]], at)

    monkeypatch.setattr(os, "preadv", half)
    for first in (b"1", b"2"):
        with open(file, "r+b") as opened:
            opened.write(first)
        storage(root).copy_ahead("web", "c1", (), quiet)
        assert (root / ".checkpoints" / "web" / ".half-c1" / "big").read_bytes() == file.read_bytes()


def test_a_file_that_becomes_shorter_while_it_is_copied_does_not_hold_the_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "clone", lambda *ignored: False)
    monkeypatch.setattr(blocks, "_CHUNK", 1000)
    log = root / "web" / "log"
    log.write_bytes(os.urandom(5000))
    storage(root).copy_ahead("web", "c1", (), lambda moved: os.truncate(log, 1500))
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert (Path(made.path) / "log").read_bytes() == log.read_bytes() and made.size_bytes == 1500


def test_a_disk_that_could_not_write_makes_no_copy(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "web" / "a").write_bytes(b"1")
    monkeypatch.setattr(blocks, "_libc", SimpleNamespace(syncfs=lambda handle: -1, sync_file_range=lambda *given: 0))
    with pytest.raises(Failed) as trouble:
        storage(root).copy_ahead("web", "c1", (), quiet)
    assert trouble.value.code == "disk_failed" and not (root / ".checkpoints" / "web" / ".stamps-c1").exists()


def test_what_cannot_be_read_is_no_hole(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "web" / "a").write_bytes(b"1")

    def broken(*given: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "lseek", broken)
    with pytest.raises(Failed) as trouble:
        storage(root).copy_ahead("web", "c1", (), quiet)
    assert trouble.value.code == "disk_failed"


def test_what_copies_may_take_leaves_a_twentieth_and_at_most_a_gigabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what users may write: some file systems keep blocks for root."""
    for blocks_all, room in ((1 << 20, 1000 * 4096 - (1 << 32) // 20), (1 << 30, 1000 * 4096 - (1 << 30))):
        found = SimpleNamespace(f_frsize=4096, f_blocks=blocks_all, f_bfree=5000, f_bavail=1000)
        monkeypatch.setattr(os, "fstatvfs", lambda handle, found=found: found)
        assert blocks.room_bytes(0) == room


def test_a_hole_needs_no_space(small: Path) -> None:  # noqa: F811
    (small / "web").mkdir()
    with open(small / "web" / "sparse", "wb") as file:
        file.truncate(1 << 30)
        file.write(b"1")
    need = storage(small).need("web")
    assert need is not None and need.size_bytes == 1 << 30 and need.written_bytes <= 1 << 16
    made = storage(small).checkpoint("web", "c1", 1.0)
    assert (Path(made.path) / "sparse").stat().st_size == 1 << 30


def test_files_whose_paths_are_too_long_for_a_link_are_copied(root: Path) -> None:
    """The kernel takes no path of more than 4095 bytes; a tree may be deeper."""
    at = os.open(root / "web", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=at)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("one", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.link("one", "two", src_dir_fd=at, dst_dir_fd=at)
    os.close(at)
    settle()
    for number in range(2):
        storage(root).copy_ahead("web", f"c{number}", (), quiet)
        made = storage(root).checkpoint("web", f"c{number}", float(number))
        assert made.files == 2
        at = os.open(made.path, os.O_RDONLY)
        for _ in range(20):
            below = os.open("d" * 250, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        assert sorted(os.listdir(at)) == ["one", "two"]
        os.close(at)


def test_copies_leave_a_part_of_the_disk_free(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running programs need it: a copy is refused before the disk is full."""
    (root / "web" / "a").write_bytes(b"1" * 5000)
    monkeypatch.setattr(blocks, "RESERVE_SHARE", 1)
    monkeypatch.setattr(blocks, "RESERVE_MAX_BYTES", 1 << 62)
    need = storage(root).need("web")
    assert need is not None and need.room_bytes < 0 < need.disk_bytes
    with pytest.raises(Failed) as trouble:
        storage(root).copy_ahead("web", "c1", (), quiet)
    assert trouble.value.code == "no_space" and os.listdir(root / ".checkpoints" / "web") == []


def test_what_was_copied_already_and_what_checkpoints_hold_is_measured(root: Path) -> None:
    (root / "web" / "a").write_bytes(os.urandom(20_000))
    os.link(root / "web" / "a", root / "web" / "b")
    settle()
    before = storage(root).need("web")
    assert before is not None and (before.size_bytes, before.files, before.written_bytes) == (20_000, 1, 20_000)
    storage(root).copy_ahead("web", "c1", (), quiet)
    ahead = storage(root).need("web")
    assert ahead is not None and ahead.written_bytes == 0
    storage(root).checkpoint("web", "c1", 1.0)
    after = storage(root).need("web")
    assert after is not None and (after.written_bytes, after.held_bytes > before.held_bytes + 19_999) == (0, True)


def on_disk(root: Path) -> int:
    """What all checkpoints take, counted file by file."""
    files = (os.path.join(top, name) for top, _, names in os.walk(root / ".checkpoints") for name in names)
    found = {about.st_ino: about.st_blocks * 512 for about in map(os.lstat, files)}
    return sum(found.values())


@pytest.mark.parametrize("seed", range(6))
def test_what_checkpoints_hold_is_the_same_whatever_was_made_and_deleted(
    root: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamps, "RECENT_NS", 0)
    chance = random.Random(seed)
    for name in "abcdef":
        (root / "web" / name).write_bytes(os.urandom(chance.randrange(1, 40_000)))
    os.link(root / "web" / "a", root / "web" / "a-too")
    (root / "db").mkdir()
    (root / "db" / "x").write_bytes(os.urandom(9000))
    storage(root).checkpoint("db", "other", 1.0)
    for step in range(12):
        match chance.choice(("make", "make", "ahead", "drop", "delete", "delete")):
            case "make":
                (root / "web" / chance.choice("abcdef")).write_bytes(os.urandom(chance.randrange(1, 40_000)))
                storage(root).checkpoint("web", f"c{step}", float(step))
            case "ahead":
                storage(root).copy_ahead("web", f"h{step}", (), quiet)
            case "drop":
                storage(root).drop_ahead("web")
            case "delete":
                kept = [one for one in storage(root).checkpoints() if one.service == "web"]
                if kept:
                    storage(root).discard(discardable(chance.choice(kept)))
        if chance.random() < 0.6:
            need = storage(root).need("web")
            assert need is not None and need.held_bytes == on_disk(root), step


def test_a_copy_is_looked_at_once_to_know_what_checkpoints_hold(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "web" / "a").write_bytes(b"1" * 5000)
    walked: list[str] = []
    files = held._files

    def noted(shelf: int, name: str) -> Iterator[os.stat_result]:
        walked.append(name)
        return files(shelf, name)

    monkeypatch.setattr(held, "_files", noted)
    for number in range(5):
        storage(root).checkpoint("web", f"c{number}", float(number))
        storage(root).need("web")
    assert walked == ["c0", "c1", "c2", "c3", "c4"]


@pytest.mark.parametrize("left", ["", "{", '{"c1": 0, "gone": 4096}'])
def test_half_a_list_of_what_checkpoints_hold_or_an_older_one_is_not_believed(root: Path, left: str) -> None:
    (root / "web" / "a").write_bytes(os.urandom(50_000))
    settle()
    for id in ("c1", "c2"):
        storage(root).checkpoint("web", id, 1.0)
        storage(root).need("web")
    (root / ".checkpoints" / "web" / ".held").write_text(left)
    need = storage(root).need("web")
    assert need is not None and need.held_bytes == on_disk(root) > 50_000


@pytest.mark.parametrize("what", ["need", "discard"])
def test_killed_at_any_step_the_sum_of_what_checkpoints_hold_stays_right(
    root: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "web" / "a").write_bytes(os.urandom(50_000))
    settle()
    for at in range(100):
        made = [storage(root).checkpoint("web", f"{id}{at:02}", 1.0) for id in "abcd"]
        if what == "discard":
            storage(root).need("web")
        left = at

        def dies(act: Any, *given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return act(*given, **named)

        with monkeypatch.context() as patched, suppress(Killed):
            for name in ("open", "fdopen", "rename", "unlink"):
                patched.setattr(os, name, partial(dies, getattr(os, name)))
            storage(root).discard(discardable(made[0])) if what == "discard" else storage(root).need("web")
        need = storage(root).need("web")
        assert need is not None and need.held_bytes == on_disk(root) > 50_000, at
        for one in made:
            storage(root).discard(discardable(one))
        if left >= 0:
            break
    assert 10 <= at < 99


class Killed(BaseException):
    """kill -9: nothing after it happens."""


def test_a_full_disk_keeps_no_checkpoint_from_being_deleted_and_none_from_being_counted(small: Path) -> None:  # noqa: F811
    (small / "web").mkdir()
    (small / "web" / "a").write_bytes(os.urandom(300_000))
    settle()
    made = [storage(small).checkpoint("web", id, 1.0) for id in ("c1", "c2")]
    storage(small).need("web")
    made.append(storage(small).checkpoint("web", "c3", 1.0))
    with pytest.raises(OSError), open(small / "full", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    for one in made[:2]:
        storage(small).discard(discardable(one))
    (small / "full").unlink()
    need = storage(small).need("web")
    assert storage(small).checkpoints() == made[2:] and need is not None and need.held_bytes == on_disk(small) > 300_000


def test_the_checkpoints_of_another_service_may_come_and_go_while_they_are_listed_and_counted(root: Path) -> None:
    """Several services are rolled out at a time: a deployment must not fail for what another one does."""
    for name in ("web", "db"):
        (root / name).mkdir(exist_ok=True)
        (root / name / "a").write_bytes(b"1" * 5000)
    settle()
    for number in range(40):
        storage(root).checkpoint("web", f"c{number}", float(number))
    ended = threading.Event()

    def rolled_out() -> None:
        number = 100
        while not ended.is_set():
            number += 1
            storage(root).discard(discardable(storage(root).checkpoint("web", f"c{number}", float(number))))

    other = threading.Thread(target=rolled_out)
    other.start()
    try:
        for _ in range(60):
            assert len(storage(root).checkpoints()) >= 40
            assert storage(root).need("db") is not None
    finally:
        ended.set()
        other.join()
    need = storage(root).need("db")
    assert need is not None and need.held_bytes == on_disk(root)


def test_a_program_that_moves_directories_does_not_end_the_measuring(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "web" / "p" / "q").mkdir(parents=True)
    (root / "web" / "r").mkdir()
    (root / "web" / "p" / "q" / "a").write_bytes(b"1" * 5000)
    stamp = stamps.stamp

    def moving(path: str, about: os.stat_result) -> bytes:
        if path == "p/q/a":
            (root / "web" / "p" / "q").rename(root / "web" / "r" / "q")
        return stamp(path, about)

    monkeypatch.setattr(stamps, "stamp", moving)
    need = storage(root).need("web")
    assert need is not None and (need.files, need.size_bytes) == (1, 5000)


def test_a_copy_that_is_begun_meanwhile_does_not_make_the_sum_wrong_for_ever(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "web" / "a").write_bytes(os.urandom(50_000))
    settle()
    storage(root).checkpoint("web", "c1", 1.0)
    files = held._files

    def slow(shelf: int, name: str) -> Iterator[os.stat_result]:
        monkeypatch.setattr(held, "_files", files)
        storage(root).copy_ahead("web", "c2", (), quiet)
        yield from files(shelf, name)

    monkeypatch.setattr(held, "_files", slow)
    storage(root).need("web")
    need = storage(root).need("web")
    assert need is not None and need.held_bytes == on_disk(root)


def test_a_checkpoint_that_is_complete_is_not_copied_ahead_again(root: Path) -> None:
    (root / "web" / "a").write_bytes(b"1")
    made = storage(root).checkpoint("web", "c1", 1.0)
    (root / "web" / "a").write_bytes(b"22")
    assert storage(root).copy_ahead("web", "c1", (), quiet).written_bytes == 0
    assert storage(root).checkpoint("web", "c1", 2.0) == made and (Path(made.path) / "a").read_bytes() == b"1"
    assert sorted(os.listdir(root / ".checkpoints" / "web")) == [".about-c1", ".stamps-c1", "c1"]


def test_one_incomplete_copy_is_continued_and_all_others_are_deleted(root: Path) -> None:
    (root / "web" / "a").write_bytes(b"1")
    shelf = root / ".checkpoints" / "web"
    storage(root).copy_ahead("web", "c1", (), quiet)
    for name in (".half-x", ".half-y"):
        (shelf / name).mkdir()
        (shelf / name / "old").write_bytes(b"of another time")
    storage(root).copy_ahead("web", "c2", (), quiet)
    assert sorted(os.listdir(shelf)) == [".half-c2", ".stamps-c2"] and os.listdir(shelf / ".half-c2") == ["a"]
    storage(root).drop_ahead("web")
    assert os.listdir(shelf) == []


def mutate(web: Path, dice: random.Random) -> None:
    """Anything that programs do to files and directories."""
    files = [path for path in sorted(web.rglob("*")) if path.is_file() and not path.is_symlink()]
    folders = [web, *[path for path in sorted(web.rglob("*")) if path.is_dir() and not path.is_symlink()]]
    name = dice.choice(folders) / f"n{dice.randrange(12)}"
    file = dice.choice(files) if files else None
    match dice.randrange(12):
        case 0 | 1 if not name.is_dir() and not name.is_symlink():
            name.write_bytes(dice.randbytes(dice.choice((0, 10, 70_000, 1_300_000))))
        case 2 if not name.exists() and not name.is_symlink():
            name.mkdir()
        case 3 if file:
            file.unlink()
        case 4 if file and not name.exists() and not name.is_symlink():
            os.link(file, name)
        case 5 if not name.exists() and not name.is_symlink():
            name.symlink_to(dice.choice(("nowhere", "/etc", "n1")))
        case 6 if file:
            with open(file, "r+b") as opened:
                opened.seek(dice.randrange(1_000_000))
                opened.write(dice.randbytes(50))
        case 7 if file:
            os.truncate(file, dice.choice((0, 5, 65_536, 2_000_000)))
        case 8 if file:
            os.chmod(file, dice.choice((0o600, 0o644, 0o4755)))
            os.chown(file, dice.randrange(100), 7)
        case 9 if file:
            os.setxattr(file, "user.note", dice.randbytes(4))
        case 10 if len(folders) > 1:
            moved = dice.choice(folders[1:])
            if not name.exists() and not name.is_symlink() and moved not in (name, *name.parents):
                moved.rename(name)
        case 11 if file and not name.is_dir() and not name.is_symlink():
            file.rename(name)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_changes_between_the_passes_the_checkpoint_is_the_data(root: Path, seed: int) -> None:
    """Files, directories, links, holes, owners, modes, attributes; checkpoints before it stay as they were."""
    dice, web = random.Random(seed), root / "web"
    before: dict[Path, dict[str, tuple[object, ...]]] = {}
    for number in range(5):
        for _ in range(25):
            mutate(web, dice)
        if dice.random() < 0.5:
            settle()
        for _ in range(dice.randrange(3)):
            storage(root).copy_ahead("web", f"c{number}-{dice.randrange(9)}", (), quiet)
            for _ in range(dice.randrange(12)):
                mutate(web, dice)
        made = storage(root).checkpoint("web", f"c{number}", float(number))
        before[Path(made.path)] = pictured(web)
        assert made.size_bytes == sum({p.stat().st_ino: p.stat().st_size for p in files(web)}.values())
        for copy, picture in before.items():
            assert pictured(copy) == picture
        numbers = {path.stat().st_ino for path in files(web)}
        assert not numbers & {path.stat().st_ino for copy in before for path in files(copy)}
        left = [name for name in os.listdir(root / ".checkpoints" / "web") if name.startswith(".half")]
        assert left == []


def files(top: Path) -> list[Path]:
    return [path for path in top.rglob("*") if path.is_file() and not path.is_symlink()]


def make(path: Path, kind: str) -> None:
    if kind == "file":
        path.write_bytes(b"1")
    elif kind == "link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
        (path / "inner").write_bytes(b"2")


def test_an_entry_of_any_kind_may_become_one_of_any_other_kind_between_the_passes(root: Path) -> None:
    kinds, web = ("file", "link", "pipe", "directory"), root / "web"
    pairs = [(before, after, web / f"{before}-{after}") for before in kinds for after in kinds]
    for before, _, path in pairs:
        make(path, before)
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    for _, after, path in pairs:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(path, after)
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert pictured(Path(made.path)) == pictured(web)


def test_a_directory_that_was_a_mount_point_before_is_copied_and_one_that_became_one_is_not(root: Path) -> None:
    """Mounting changes no time of the directory above."""
    web = root / "web"
    for name in ("inner", "other"):
        (web / name).mkdir()
        (web / name / "page").write_bytes(b"1")
    settle()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(web / "inner")], check=True)
    try:
        storage(root).copy_ahead("web", "c1", (), quiet)
    finally:
        subprocess.run(["umount", str(web / "inner")], check=True)
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert made.left_out == () and pictured(Path(made.path)) == pictured(web)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(web / "other")], check=True)
    try:
        made = storage(root).checkpoint("web", "c2", 2.0)
    finally:
        subprocess.run(["umount", str(web / "other")], check=True)
    assert made.left_out == ("other",) and os.listdir(made.path) == ["inner"]
    assert Path(made.path).stat().st_mtime_ns == web.stat().st_mtime_ns


def test_a_file_that_vanishes_while_it_is_looked_at_is_in_no_checkpoint(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = root / "web" / "gone"
    gone.write_bytes(b"1")
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    gone.write_bytes(b"2")
    walk = tree.walk

    def racing(*given: Any) -> Iterator[Any]:
        for visit in walk(*given):
            gone.unlink(missing_ok=True)
            yield visit

    monkeypatch.setattr(tree, "walk", racing)
    assert os.listdir(storage(root).checkpoint("web", "c1", 1.0).path) == []


def test_a_directory_that_is_moved_while_it_is_read_ends_the_copy_ahead_and_the_checkpoint_has_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk goes up by "..", which must lead to where it came from."""
    web = root / "web"
    for name in ("one/inner", "two"):
        (web / name).mkdir(parents=True)
    (web / "one" / "inner" / "a").write_bytes(b"1")
    walk = tree.walk

    def racing(*given: Any) -> Iterator[Any]:
        for visit in walk(*given):
            if visit.name == "a" and (web / "one" / "inner").exists():
                (web / "one" / "inner").rename(web / "two" / "inner")
            yield visit

    with monkeypatch.context() as patched:
        patched.setattr(tree, "walk", racing)
        storage(root).copy_ahead("web", "c1", (), quiet)
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert pictured(Path(made.path)) == pictured(web)


def test_a_service_that_writes_and_moves_files_meanwhile_is_copied_ahead(root: Path) -> None:
    web, ended = root / "web", threading.Event()

    def write() -> None:
        dice = random.Random(1)
        while not ended.is_set():
            mutate(web, dice)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(15):
            storage(root).copy_ahead("web", f"c{number}", (), quiet)
    finally:
        ended.set()
        writer.join()
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert pictured(Path(made.path)) == pictured(web)


@pytest.mark.parametrize("where", ["copy", "update", "flush_all"])
def test_killed_while_it_copies_ahead_the_next_attempt_continues(root: Path, where: str) -> None:
    web = root / "web"
    for number in range(20):
        (web / f"f{number:02}").write_bytes(os.urandom(3000))
    settle()
    before = storage(root).checkpoint("web", "c1", 1.0)
    picture = pictured(web)
    (web / "big").write_bytes(os.urandom(2 << 20))
    if where == "update":
        storage(root).copy_ahead("web", "c2", (), quiet)
    with open(web / "big", "r+b") as file:
        file.write(b"changed")
    for number in range(10):
        (web / f"f{number:02}").write_bytes(b"changed")
    script = f"""
import os
from holdfast.adapters.storage import blocks
from holdfast.adapters.storage.directory import DirectoryStorage
real, left = blocks.{where}, [{5 if where == "copy" else 0}]
def killed(*given):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), 9)
    return real(*given)
blocks.{where} = killed
DirectoryStorage({str(root)!r}, "w1").copy_ahead("web", "c2", (), lambda moved: None)
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == -9
    assert storage(root).checkpoints() == [before] and pictured(Path(before.path)) == picture
    made = storage(root).checkpoint("web", "c9", 3.0)
    assert pictured(Path(made.path)) == pictured(web) and pictured(Path(before.path)) == picture
    names = sorted(os.listdir(root / ".checkpoints" / "web"))
    assert names == [".about-c1", ".about-c9", ".stamps-c1", ".stamps-c9", "c1", "c9"]


@pytest.mark.parametrize("kind", ["other bytes", "other format"])
def test_a_damaged_list_of_stamps_costs_time_and_no_file(root: Path, kind: str) -> None:
    """It names the state of now, which the copy does not have: a list that was believed would keep the older one."""
    file, path = root / "web" / "a", root / ".checkpoints" / "web" / ".stamps-c1"
    file.write_bytes(b"1")
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    file.write_bytes(b"2")
    head, known = path.read_bytes()[: len(b"holdfast-stamps-1\n") + 32], stamps.stamp("a", file.stat())
    if kind == "other format":
        head = b"holdfast-stamps-0\n" + sha256(known).digest()
    path.write_bytes(head + known)
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert (Path(made.path) / "a").read_bytes() == b"2"


@pytest.mark.parametrize(
    ("count", "commits", "syncs"),
    [(3, 3, 0), (copying.FLUSHED_MAX, copying.FLUSHED_MAX, 0), (copying.FLUSHED_MAX + 20, 0, 1)],
)
def test_many_changed_files_are_flushed_once_and_few_one_by_one(
    root: Path, monkeypatch: pytest.MonkeyPatch, count: int, commits: int, syncs: int
) -> None:
    """While nothing serves: each flush of one file waits for the journal of the disk. What is as before needs none."""
    for number in range(count):
        (root / "web" / f"f{number}").write_bytes(b"1")
    for number in range(copying.FLUSHED_MAX):
        (root / "web" / f"d{number}").mkdir()
    settle()
    storage(root).copy_ahead("web", "c1", (), quiet)
    for number in range(count):
        (root / "web" / f"f{number}").write_bytes(b"2")
    flushed: list[str] = []
    fsync, flush_all = os.fsync, blocks.flush_all

    def one(file: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    def all_of_it(handle: int) -> None:
        flushed.append("all")
        flush_all(handle)

    monkeypatch.setattr(os, "fsync", one)
    monkeypatch.setattr(blocks, "flush_all", all_of_it)
    made = storage(root).checkpoint("web", "c1", 1.0)
    assert pictured(Path(made.path)) == pictured(root / "web")
    assert sum("/.half-c1/f" in name for name in flushed) == commits and flushed.count("all") == syncs


def test_without_space_nothing_is_left_of_the_copy_ahead(small: Path) -> None:  # noqa: F811
    (small / "web").mkdir()
    (small / "web" / "a").write_bytes(os.urandom(2 << 20))
    free = os.statvfs(small).f_bfree
    with pytest.raises(Failed) as trouble:
        storage(small).copy_ahead("web", "c1", (), quiet)
    assert trouble.value.code == "no_space" and os.statvfs(small).f_bfree >= free - 3
    assert os.listdir(small / ".checkpoints" / "web") == []


def test_who_is_told_may_end_the_copy(root: Path) -> None:
    class Ended(Exception):
        pass

    def tell(moved_bytes: int) -> None:
        raise Ended

    (root / "web" / "a").write_bytes(b"1")
    with pytest.raises(Ended):
        storage(root).copy_ahead("web", "c1", (), tell)
    assert storage(root).checkpoint("web", "c1", 1.0).size_bytes == 1


def test_a_file_system_with_reflinks_shares_blocks_and_needs_no_space(tmp_path: Path) -> None:
    image, place = tmp_path / "image", tmp_path / "mounted"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        (place / "web").mkdir()
        (place / "web" / "big").write_bytes(os.urandom(90 << 20))
        settle()
        need = storage(place).need("web")
        assert need is not None and (need.written_bytes, need.held_bytes) == (0, 0)
        for number in range(4):
            storage(place).copy_ahead("web", f"c{number}", (), quiet)
            with open(place / "web" / "big", "r+b") as file:
                file.write(bytes([number]))
            made = storage(place).checkpoint("web", f"c{number}", float(number))
            assert (Path(made.path) / "big").read_bytes() == (place / "web" / "big").read_bytes()
        assert [(Path(one.path) / "big").read_bytes()[0] for one in storage(place).checkpoints()] == [0, 1, 2, 3]
        storage(place).copy_ahead("web", "c4", (), quiet)
        os.truncate(place / "web" / "big", 1 << 20)
        assert (Path(storage(place).checkpoint("web", "c4", 4.0).path) / "big").stat().st_size == 1 << 20
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_passes_go_on_until_one_is_short(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "web" / "a").write_bytes(b"1")
    passes: list[int] = []
    real = blocks.flush_all

    def flush_all(handle: int) -> None:
        passes.append(1)
        real(handle)

    monkeypatch.setattr(blocks, "flush_all", flush_all)
    storage(root).copy_ahead("web", "c1", (), quiet)
    assert len(passes) == 1
    monkeypatch.setattr(checkpoints, "SHORT_S", 0.0)
    storage(root).copy_ahead("web", "c1", (), quiet)
    assert len(passes) == 1 + checkpoints.PASSES_MAX
