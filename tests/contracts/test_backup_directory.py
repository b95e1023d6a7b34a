"""A directory as a target when things go wrong: unmounted, full, read-only, pulled out, killed (H-49, R05, R06)."""

import asyncio
import errno
import fcntl
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.backup_target import local_dir, marker, object_files
from holdfast.adapters.backup_target.blocking import Blocking, Silent
from holdfast.adapters.backup_target.local_dir import LocalDir
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid, NotPermitted, TryLater
from holdfast.model import backup_key
from holdfast.ports.backup_target import TargetState
from tests.fleets.backup_targets import MIB, bytes_of, files_in, mounted, mounted_again, pack, prunable, run
from tests.fleets.handles import none_left_open
from tests.fleets.waiting import Stopwatch

pytestmark = pytest.mark.lab

ID = "0b1c-disk"
OLD, NEW = bytes_of("old", 700_000), bytes_of("new", 900_000)
EXT4_IOC_SHUTDOWN = 0x8004587D


def do(call: Any) -> Any:
    return asyncio.run(asyncio.wait_for(call, 60))


def refused(call: Any, family: type[HoldfastError], code: str) -> HoldfastError:
    with pytest.raises(family) as found:
        do(call)
    assert found.value.code == code, found.value.message
    assert found.value.remedy
    return found.value


def attached(place: Path) -> LocalDir:
    target = LocalDir(str(place), ID)
    do(target.attach())
    do(target.put(pack(OLD), OLD))
    return target


def look(target: LocalDir) -> TargetState:
    found: TargetState = do(target.look())
    return found


def objects(place: Path) -> dict[str, bytes]:
    return {name: content for name, content in files_in(place).items() if name != marker.NAME}


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "64M", request.param) as place:
        yield place


# ---- it is there, or it is not


def test_a_directory_without_the_marker_is_missing_and_stays_empty(tmp_path: Path) -> None:
    place = tmp_path / "place"
    target = LocalDir(str(place), ID)
    assert look(target).state == "missing"
    place.mkdir()
    for _ in range(2):
        assert look(target).state == "missing"
        calls: list[Any] = [target.put(pack(OLD), OLD), target.get(pack(OLD)), target.has([pack(OLD)])]
        for call in (*calls, target.list("f" * 16 + "/"), target.delete(pack(OLD), prunable(pack(OLD)))):
            refused(call, TryLater, "target_missing")
        assert list(place.iterdir()) == []
    do(target.attach())
    assert look(target).state == "attached"


def test_the_mount_point_of_a_disk_that_is_not_mounted_is_not_the_target_h49(disk: Path) -> None:
    """The system disk does not fill up in its place; when the disk is back, everything is there."""
    target = attached(disk)
    bind = disk.with_name("kept")
    bind.mkdir()
    run("mount", "--bind", disk, bind)
    try:
        run("umount", disk)
        watch = Stopwatch()
        state = look(target)
        assert (state.state, state.durable_id) == ("missing", "") and marker.NAME in state.reason
        assert watch.within(5)
        refused(target.put(pack(NEW), NEW), TryLater, "target_missing")
        assert list(disk.iterdir()) == []
        run("mount", "--bind", bind, disk)
    finally:
        run("umount", bind)
    assert look(target).state == "attached"
    do(target.put(pack(NEW), NEW))
    assert objects(disk) == {pack(OLD): OLD, pack(NEW): NEW}


def test_another_target_in_its_place_is_named(disk: Path) -> None:
    attached(disk)
    other = LocalDir(str(disk), "other-disk")
    state = look(other)
    assert (state.state, state.durable_id) == ("missing", ID) and ID in state.reason
    refused(other.put(pack(NEW), NEW), TryLater, "target_missing")
    refused(other.attach(), Conflict, "other_target")
    do(LocalDir(str(disk), ID).attach())
    assert look(LocalDir(str(disk), ID)).state == "attached"


@pytest.fixture
def on_system_disk() -> Iterator[Path]:
    """The temporary directory may be on another one."""
    with tempfile.TemporaryDirectory(dir="/", prefix=".holdfast-test-") as found:
        yield Path(found)


def test_a_copy_of_the_target_on_the_system_disk_is_not_the_target(disk: Path, on_system_disk: Path) -> None:
    attached(disk)
    copy = on_system_disk / "copy"
    shutil.copytree(disk, copy, ignore=shutil.ignore_patterns("lost+found"))
    state = look(LocalDir(str(copy), ID))
    assert state.state == "missing" and "system disk" in state.reason
    refused(LocalDir(str(copy), ID).put(pack(NEW), NEW), TryLater, "target_missing")


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 5000, b"backup target of Holdfast\nid \n", b"#" * 4096])
def test_a_file_that_is_no_marker_makes_no_target(tmp_path: Path, content: bytes) -> None:
    (tmp_path / marker.NAME).write_bytes(content)
    assert look(LocalDir(str(tmp_path), ID)).state == "missing"
    refused(LocalDir(str(tmp_path), ID).attach(), Conflict, "other_target")
    assert (tmp_path / marker.NAME).read_bytes() == content


@pytest.mark.parametrize("text", ["", "a b", "a\nb", "-x", "x" * 201, "é", "a\0"])
def test_a_durable_id_has_a_form(text: str) -> None:
    with pytest.raises(Invalid):
        LocalDir("/nowhere", text)


def test_links_and_mounts_inside_lead_nowhere(disk: Path, tmp_path: Path) -> None:
    target = attached(disk)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = pack(NEW, service="other")
    (disk / other).parent.parent.parent.symlink_to(elsewhere)
    refused(target.put(other, NEW), NotPermitted, "not_a_plain_directory")
    (disk / "aside").mkdir()
    (disk / pack(NEW, service="third")).parent.parent.parent.symlink_to(disk / "aside")
    refused(target.put(pack(NEW, service="third"), NEW), NotPermitted, "not_a_plain_directory")
    assert list((disk / "aside").iterdir()) == []
    inner = disk / pack(NEW, service="inner").split("/")[0] / "inner"
    inner.mkdir()
    run("mount", "--bind", elsewhere, inner)
    try:
        refused(target.put(pack(NEW, service="inner"), NEW), NotPermitted, "not_a_plain_directory")
    finally:
        run("umount", inner)
    (disk / pack(NEW)).symlink_to("/etc/passwd")
    refused(target.get(pack(NEW)), NotPermitted, "not_a_plain_directory")
    refused(target.put(pack(NEW), NEW), NotPermitted, "not_a_plain_directory")
    assert list(elsewhere.iterdir()) == [] and do(target.has([pack(NEW)])) == set()


# ---- full, read-only, failing


def fill(place: Path, keep_bytes: int = 0) -> Path:
    filler = place / "filler"
    with filler.open("wb") as file:
        try:
            while True:
                file.write(bytes(64 * 1024))
                file.flush()
        except OSError as trouble:
            assert trouble.errno == errno.ENOSPC
    os.truncate(filler, max(filler.stat().st_size - keep_bytes, 0))
    return filler


def test_a_full_disk_keeps_what_it_has_and_takes_more_once_there_is_room_r05(disk: Path) -> None:
    target = attached(disk)
    filler = fill(disk)
    for _ in range(3):
        trouble = refused(target.put(pack(NEW), NEW), Failed, "no_space")
        assert "full" in trouble.message
        assert objects(disk).keys() == {pack(OLD), "filler"} and do(target.get(pack(OLD))) == OLD
    do(target.put(pack(OLD), OLD))  # it is there already
    state = look(target)
    assert state.state == "full" and state.free_bytes == 0
    filler.unlink()
    do(target.put(pack(NEW), NEW))
    assert objects(disk) == {pack(OLD): OLD, pack(NEW): NEW}
    assert look(target).state == "attached"


def test_a_disk_that_fills_up_in_the_middle_of_a_write_leaves_nothing_half_r05(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before a write cannot know what other programs take meanwhile."""
    target = attached(disk)
    fill(disk, keep_bytes=300_000)
    monkeypatch.setattr(LocalDir, "_check_room", lambda self, root, size_bytes: None)
    for _ in range(3):
        refused(target.put(pack(NEW), NEW), Failed, "no_space")
        assert objects(disk).keys() == {pack(OLD), "filler"}
        assert list(disk.rglob(".incoming*")) == []


def test_a_disk_without_inodes_is_full_r05(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "64M", options=",nr_inodes=12") as disk:
        target = attached(disk)
        number = 0
        while os.statvfs(disk).f_favail:
            (disk / f"file{number}").touch()
            number += 1
        refused(target.put(pack(NEW), NEW), Failed, "no_space")
        assert look(target).state == "full"
        (disk / "file0").unlink()
        do(target.put(pack(NEW), NEW))


def test_a_reserve_stays_free(disk: Path) -> None:
    target = LocalDir(str(disk), ID)
    do(target.attach())
    for number in range(100):
        content = bytes_of(f"{number}", MIB)
        try:
            do(target.put(pack(content), content))
        except Failed as trouble:
            assert trouble.code == "no_space"
            break
    about = os.statvfs(disk)
    assert number > 20 and about.f_bavail * about.f_frsize >= about.f_blocks * about.f_frsize // 100


def test_a_disk_that_became_read_only_is_read_on(disk: Path) -> None:
    target = attached(disk)
    run("mount", "-o", "remount,ro", disk)
    state = look(target)
    assert state.state == "read_only" and "read-only" in state.reason
    refused(target.put(pack(NEW), NEW), Failed, "target_read_only")
    refused(target.delete(pack(OLD), prunable(pack(OLD))), Failed, "target_read_only")
    assert do(target.get(pack(OLD))) == OLD
    run("mount", "-o", "remount,rw", disk)
    do(target.put(pack(NEW), NEW))


def test_a_disk_that_is_pulled_out_is_noticed_and_used_again_when_it_is_back_h49(tmp_path: Path) -> None:
    """ext4 that was shut down answers every access to the disk with an error, as after a cable was pulled; what the
    kernel has in memory it still gives out."""
    with mounted(tmp_path / "disk", "64M", "ext4") as disk:
        target = attached(disk)
        second = bytes_of("second", 300_000)
        do(target.put(pack(second), second))
        assert look(target).state == "attached"
        handle = os.open(disk, os.O_RDONLY)
        fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", 2))
        os.close(handle)
        watch = Stopwatch()
        assert look(target).state in ("failing", "missing")
        assert watch.within(5)
        with pytest.raises(TryLater):
            do(target.put(pack(NEW), NEW))
        run("umount", disk)
        assert look(target).state == "missing"
        mounted_again(disk)
        assert look(target).state == "attached"
        assert objects(disk) == {pack(OLD): OLD, pack(second): second}, "what a put returned for is there"
        do(target.put(pack(NEW), NEW))


def test_a_look_reads_the_disk_and_not_the_memory_of_the_kernel_h49(tmp_path: Path) -> None:
    """A disk that is gone without a word: its blocks are, the kernel's copies of them are not."""
    with mounted(tmp_path / "disk", "64M", "ext4") as disk:
        target = attached(disk)
        assert look(target).state == "attached"
        os.truncate(disk.with_name("disk.image"), 0)
        assert (disk / marker.NAME).read_bytes() == marker.write(marker.Marker(ID, True)), "it is in memory"
        assert look(target).state in ("missing", "failing")


@pytest.mark.parametrize("how", ["umount", "shutdown"])
def test_a_disk_that_is_pulled_out_during_a_write_stores_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with mounted(tmp_path / "disk", "64M", "ext4") as disk:
        target = attached(disk)
        real = object_files._write

        def pulled(handle: int, content: Any) -> None:
            os.write(handle, memoryview(content)[: len(content) // 2])
            os.lseek(handle, 0, os.SEEK_SET)
            if how == "umount":
                run("umount", "-l", disk)
            else:
                fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", 2))
            real(handle, content)

        monkeypatch.setattr(object_files, "_write", pulled)
        with pytest.raises(TryLater):
            do(target.put(pack(NEW), NEW))
        assert how == "shutdown" or list(disk.iterdir()) == []
        monkeypatch.undo()
        subprocess.run(["umount", disk], capture_output=True)
        mounted_again(disk)
        found = objects(disk)
        assert found.pop(pack(OLD)) == OLD and found in ({}, {pack(NEW): NEW})
        do(target.put(pack(NEW), NEW))
        assert objects(disk)[pack(NEW)] == NEW


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_nothing_is_stored_if_a_flush_fails_r06(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    target = LocalDir(str(tmp_path), ID)
    do(target.attach())
    real, calls = os.fsync, 0

    def failing(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(os, "fsync", failing)
    refused(target.put(pack(NEW), NEW), TryLater, "target_failing")
    assert do(target.has([pack(NEW)])) == set() and objects(tmp_path) == {}
    monkeypatch.undo()
    do(target.put(pack(NEW), NEW))


class Flushes:
    """What was flushed and when: paths below `top`, "content" for a file that has all of its bytes."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        fsync, link, unlink = os.fsync, os.link, os.unlink

        def flushed(handle: int) -> None:
            about = os.fstat(handle)
            path = os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), top)
            self.seen.append(f"content {about.st_size}" if stat.S_ISREG(about.st_mode) else f"folder {path}")
            fsync(handle)

        def linked(source: Any, name: Any, **more: Any) -> None:
            self.seen.append("named")
            link(source, name, **more)

        def unlinked(name: Any, **more: Any) -> None:
            self.seen.append("removed")
            unlink(name, **more)

        monkeypatch.setattr(os, "fsync", flushed)
        monkeypatch.setattr(os, "link", linked)
        monkeypatch.setattr(os, "unlink", unlinked)


@pytest.fixture
def store(tmp_path: Path) -> StoreDirectory:
    (tmp_path / "store").mkdir()
    return StoreDirectory(str(tmp_path / "store"))


def test_content_is_flushed_before_it_has_a_name_and_the_name_before_a_put_returns_r06(
    store: StoreDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = backup_key.parse(pack(NEW))
    folders = [f"folder {key.text.rsplit('/', depth)[0]}" for depth in range(1, 5)]
    flushes = Flushes(tmp_path / "store", monkeypatch)
    store.put(key, NEW)
    assert flushes.seen == [f"content {len(NEW)}", "named", folders[0], *folders, "folder ."]


def test_an_object_that_is_there_already_is_made_durable_r06(
    store: StoreDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer may have been killed before it had flushed the names."""
    key = backup_key.parse(pack(NEW))
    store.put(key, NEW)
    flushes = Flushes(tmp_path / "store", monkeypatch)
    assert store.put(key, NEW) is False
    assert flushes.seen == [*(f"folder {key.text.rsplit('/', depth)[0]}" for depth in range(1, 5)), "folder ."]


def test_the_directory_of_a_store_is_durable_before_its_first_object_is_r06(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes = Flushes(tmp_path, monkeypatch)
    StoreDirectory(str(tmp_path / "new")).put(backup_key.parse(pack(NEW)), NEW)
    assert flushes.seen[:2] == ["folder .", f"content {len(NEW)}"]


def test_names_of_folders_are_flushed_with_each_object_that_may_be_written_at_once_with_the_first(
    store: StoreDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(backup_key.parse(pack(OLD)), OLD)
    flushes = Flushes(tmp_path / "store", monkeypatch)
    store.put(backup_key.parse(pack(NEW)), NEW)
    assert "folder ." in flushes.seen, "the writer of the first one may not have come so far"
    for number in range(object_files.AT_ONCE_MAX):
        content = b"%d" % number
        flushes.seen.clear()
        store.put(backup_key.parse(pack(content)), content)
    assert "folder ." not in flushes.seen and flushes.seen[-1].endswith("/packs")


def test_a_deletion_is_flushed_before_it_returns(
    store: StoreDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = backup_key.parse(pack(OLD))
    store.put(key, OLD)
    flushes = Flushes(tmp_path / "store", monkeypatch)
    assert store.remove(key) == len(OLD)
    assert flushes.seen == ["removed", f"folder {key.text.rpartition('/')[0]}"]


@pytest.mark.parametrize("able", ["links", "renames", "nothing"])
def test_a_file_system_without_unnamed_files_or_links_stores_whole_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, able: str
) -> None:
    """FAT has neither; sticks have it."""
    real_open, real_link = os.open, os.link

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no unnamed files")
        return real_open(path, flags, *more, **named)

    def linked(*given: Any, **named: Any) -> None:
        if able != "links":
            raise OSError(errno.EPERM, "no links")
        real_link(*given, **named)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "link", linked)
    if able == "nothing":
        monkeypatch.setattr(object_files, "_NOREPLACE", 1 << 20)  # the kernel: invalid argument
    target = attached(tmp_path)
    do(target.put(pack(NEW), NEW))
    do(target.put(pack(NEW), NEW))
    assert objects(tmp_path) == {pack(OLD): OLD, pack(NEW): NEW}
    root = os.open(tmp_path, os.O_RDONLY)
    assert not object_files.store(root, marker.NAME, b"another"), "a name that is taken stays as it is"
    os.close(root)
    assert look(target).state == "attached" and not list(tmp_path.rglob(".incoming*"))


def test_a_writer_that_comes_second_compares_what_the_first_one_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked before either had written."""
    target = attached(tmp_path)
    real, looks = object_files._content, [None]

    def late(folder: int, name: str, *more: Any) -> bytes | None:
        return looks.pop() if looks else real(folder, name, *more)

    monkeypatch.setattr(object_files, "_content", late)
    do(target.put(pack(OLD), OLD))
    (tmp_path / pack(OLD)).write_bytes(b"damaged")
    looks.append(None)
    refused(target.put(pack(OLD), OLD), Conflict, "object_damaged")


def test_what_a_killed_writer_left_is_no_object_and_goes_after_an_hour(tmp_path: Path) -> None:
    target = attached(tmp_path)
    folder = (tmp_path / pack(OLD)).parent
    for name, age_s in ((".incoming-old", 4000), (".incoming-new", 10)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age_s,) * 2)
    assert [one.key for one in do(target.list("f" * 16 + "/"))] == [pack(OLD)]
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == [".incoming-new"]


def test_no_call_leaves_a_file_open(disk: Path) -> None:
    target = attached(disk)
    with none_left_open():
        do(target.put(pack(NEW), NEW))
        do(target.get(pack(NEW)))
        do(target.has([pack(NEW), pack(b"x")]))
        do(target.list("f" * 16 + "/"))
        do(target.delete(pack(NEW), prunable(pack(NEW))))
        look(target)
        fill(disk)
        refused(target.put(pack(NEW), NEW), Failed, "no_space")


# ---- killed


WRITER = """
import sys
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.model import backup_key
from tests.fleets.backup_targets import bytes_of, pack
content = bytes_of("killed", 900_000)
StoreDirectory(sys.argv[1]).put(backup_key.parse(pack(content)), content)
print("stored", flush=True)
"""


def test_a_writer_that_is_killed_at_any_step_leaves_the_whole_object_or_none(tmp_path: Path) -> None:
    """kill -9 before each system call of a put that changes the disk; then the same put again."""
    content = bytes_of("killed", 900_000)
    key = backup_key.parse(pack(content))
    ends: dict[str, int] = {"whole": 0, "none": 0}
    for step in ("mkdirat", "mkdir", "write", "fsync", "linkat"):
        for number in range(1, 12):
            place = tmp_path / f"{step}{number}"
            place.mkdir()
            words = ["strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-e", f"trace={step}"]
            words += ["-e", f"inject={step}:signal=KILL:when={number}", sys.executable, "-c", WRITER, str(place / "b")]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120)
            if "stored" in done.stdout:
                break  # it has no such step any more
            assert done.returncode in (-signal.SIGKILL, 137, 128 + 9), done.stderr
            found = files_in(place)
            assert found in ({}, {f"b/{key.text}": content}), (step, number, found.keys())
            ends["whole" if found else "none"] += 1
            assert StoreDirectory(str(place / "b")).put(key, content) is not bool(found)
            assert StoreDirectory(str(place / "b")).read(key, 0, MIB) == content
    assert ends["none"] >= 5 and ends["whole"] >= 1, ends


# ---- threads


def test_a_call_that_blocks_stops_no_event_loop() -> None:
    async def live() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        await Blocking(1, "test").run(60, time.sleep, 0.5)
        ticking.cancel()
        return ticks

    assert asyncio.run(live()) >= 5


def test_a_disk_that_does_not_answer_is_missing_in_time_and_takes_one_thread_h49(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a dead NFS server: the call ends when the kernel likes. Looks do not pile up."""
    target = attached(tmp_path)
    answers = threading.Event()
    monkeypatch.setattr(local_dir, "LOOK_S", 0.2)
    monkeypatch.setattr(local_dir, "OBJECT_S", 0.3)
    real = marker.read

    def hanging(root: int) -> Any:
        answers.wait(60)
        return real(root)

    monkeypatch.setattr(marker, "read", hanging)

    async def live() -> None:
        before = threading.active_count()
        for _ in range(10):
            state = await target.look()
            assert state.state == "missing" and "answer" in state.reason
        assert threading.active_count() <= before + 1
        for _ in range(8):
            with pytest.raises(TryLater) as refused:
                await target.put(pack(NEW), NEW)
            assert refused.value.code == "target_missing"
        assert threading.active_count() <= before + 1 + local_dir.PLACES
        answers.set()
        while (await target.look()).state != "attached":
            await asyncio.sleep(0.01)
        await target.put(pack(NEW), NEW)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_a_process_ends_while_a_disk_does_not_answer() -> None:
    story = (
        "import asyncio, time\n"
        "from holdfast.adapters.backup_target.blocking import Blocking, Silent\n"
        "async def live():\n"
        "    try:\n"
        "        await Blocking(1, 'x').run(0.1, time.sleep, 100)\n"
        "    except Silent:\n"
        "        print('silent')\n"
        "asyncio.run(live())\n"
    )
    done = subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "silent\n"), done.stderr


def test_an_error_in_a_thread_is_the_callers_and_its_place_is_free_again() -> None:
    def fails() -> None:
        raise StopIteration("odd")

    async def live() -> None:
        blocking = Blocking(1, "test")
        for _ in range(3):
            with pytest.raises(RuntimeError):
                await blocking.run(10, fails)
        with pytest.raises(Silent):
            await blocking.run(0.05, time.sleep, 0.3)
        assert await blocking.run(10, lambda: 7) == 7

    asyncio.run(live())
