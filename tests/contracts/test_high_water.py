"""Every high-water mark rises, never falls, and survives any single cut (W14, A11, R02, R11)."""

import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.high_water.file import SLOT_BYTES, SLOT_EVERY_BYTES, FileHighWater, encode
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.errors import Corrupt, Failed
from holdfast.model.revision import NO_HEAD, Head
from holdfast.ports.high_water import HighWater
from tests.fleets.waiting import wait_until

SOURCE = str(Path(__file__).parents[2] / "src")


def head(number: int, branch: str = "") -> Head:
    return Head(number, sha256(f"{branch}{number}".encode()).hexdigest())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.mark"


def at(path: Path) -> FileHighWater:
    return FileHighWater(str(path), PosixDisk())


@pytest.fixture(params=["memory", "file"])
def high_water(request: pytest.FixtureRequest, path: Path) -> HighWater:
    return MemoryHighWater() if request.param == "memory" else at(path)


# ---- every mark -----------------------------------------------------------------------------------------------------


def test_before_the_first_commit_there_is_no_mark(high_water: HighWater) -> None:
    assert high_water.read() is None
    high_water.raise_to(NO_HEAD)
    assert high_water.read() is None


def test_the_mark_is_the_newest_head(high_water: HighWater) -> None:
    for number in (1, 2, 3, 7, 1000, 2**53 - 1):
        high_water.raise_to(head(number))
        assert high_water.read() == head(number)


def test_the_mark_never_falls(high_water: HighWater) -> None:
    high_water.raise_to(head(7))
    for number in (6, 1, 0):
        high_water.raise_to(head(number))
        assert high_water.read() == head(7)
    high_water.raise_to(head(8))
    high_water.raise_to(head(7))
    assert high_water.read() == head(8)


def test_a_fork_does_not_take_the_place_of_the_head_that_came_first(high_water: HighWater) -> None:
    high_water.raise_to(head(7))
    high_water.raise_to(head(7, "fork"))
    assert high_water.read() == head(7)


def test_threads_that_raise_at_once_never_lower_each_others_mark(high_water: HighWater) -> None:
    high_water.raise_to(head(1))
    lowered: list[int] = []

    def climb(first: int) -> None:
        for number in range(first, 2000, 4):
            high_water.raise_to(head(number))
            seen = high_water.read()
            if seen is None or seen.number < number:
                lowered.append(number)

    threads = [threading.Thread(target=climb, args=(first,)) for first in (2, 3, 4, 5)]
    patience_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that they do get in each other's way
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(patience_s)
    assert lowered == []
    assert high_water.read() == head(1999)


# ---- the file -------------------------------------------------------------------------------------------------------


def test_the_file_belongs_to_its_owner_alone_and_is_found_by_the_next_process(path: Path) -> None:
    before = os.umask(0)
    try:
        at(path).raise_to(head(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert at(path).read() == head(1)


def test_a_raise_writes_one_slot_in_place_and_they_take_turns(path: Path) -> None:
    at(path).raise_to(head(1))
    facts = path.stat()
    for number in range(2, 8):
        before = path.read_bytes()
        at(path).raise_to(head(number))
        after = path.read_bytes()
        changed = {
            position // SLOT_EVERY_BYTES for position in range(len(after)) if before[position] != after[position]
        }
        assert len(changed) == 1
        kept = before[(1 - changed.pop()) * SLOT_EVERY_BYTES :][:SLOT_BYTES]
        assert kept == encode(head(number - 1))
    assert (path.stat().st_ino, path.stat().st_size) == (facts.st_ino, facts.st_size)


def test_cut_after_any_byte_of_a_raise_the_mark_is_the_old_or_the_new_one(path: Path) -> None:
    at(path).raise_to(head(1))
    for number in range(2, 5):
        before = path.read_bytes()
        at(path).raise_to(head(number))
        after = path.read_bytes()
        for length in range(SLOT_BYTES + 1):
            for slot in (0, 1):
                start = slot * SLOT_EVERY_BYTES
                torn = before[:start] + after[start : start + length] + before[start + length :]
                path.write_bytes(torn)
                assert at(path).read() in (head(number - 1), head(number))
                at(path).raise_to(head(number + 1))
                assert at(path).read() == head(number + 1)
        path.write_bytes(after)


def test_any_mix_of_generations_that_a_power_cut_leaves_is_a_good_mark(path: Path) -> None:
    generations = [encode(head(number)) for number in range(1, 8)]
    for first in generations:
        for second in generations:
            path.write_bytes(first.ljust(SLOT_EVERY_BYTES, b"\0") + second)
            assert at(path).read() == head(1 + max(generations.index(first), generations.index(second)))


@pytest.mark.parametrize("slot", [0, 1])
def test_with_either_slot_spoiled_the_other_one_speaks_and_the_next_raise_mends_it(path: Path, slot: int) -> None:
    chance = random.Random(slot)
    at(path).raise_to(head(1))
    at(path).raise_to(head(2))
    good = path.read_bytes()
    for position in range(slot * SLOT_EVERY_BYTES, slot * SLOT_EVERY_BYTES + SLOT_BYTES):
        spoiled = bytearray(good)
        spoiled[position] ^= 1 << chance.randrange(8)
        path.write_bytes(spoiled)
        mark = at(path).read()
        assert mark in (head(1), head(2))
        at(path).raise_to(head(3))
        at(path).raise_to(head(4))
        raised = path.read_bytes()
        assert sorted([raised[:SLOT_BYTES], raised[SLOT_EVERY_BYTES:]]) == sorted([encode(head(3)), encode(head(4))])


def test_truncated_anywhere_it_is_a_mark_or_a_refusal_and_never_a_traceback(path: Path) -> None:
    at(path).raise_to(head(1))
    at(path).raise_to(head(2))
    good = path.read_bytes()
    for length in (1, 8, SLOT_BYTES - 1, SLOT_BYTES, 1000, SLOT_EVERY_BYTES, len(good) - 1):
        path.write_bytes(good[:length])
        if length < SLOT_BYTES:
            with pytest.raises(Corrupt) as call:
                at(path).read()
            assert call.value.code == "high_water_damaged"
        else:
            assert at(path).read() in (head(1), head(2))
            at(path).raise_to(head(3))
            assert at(path).read() == head(3)


@pytest.mark.parametrize("content", [b"x", bytes(8192), b"SQLite format 3\0" * 512, os.urandom(8192)])
def test_a_file_without_a_good_slot_is_refused_with_a_remedy_and_left_as_evidence(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(Corrupt) as reading:
        at(path).read()
    with pytest.raises(Corrupt) as raising:
        at(path).raise_to(head(9))
    for call in (reading, raising):
        assert call.value.code == "high_water_damaged"
        assert str(path) in call.value.remedy
    assert path.read_bytes() == content


def test_an_empty_file_is_as_good_as_none(path: Path) -> None:
    path.touch()
    assert at(path).read() is None
    at(path).raise_to(head(1))
    assert at(path).read() == head(1)


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_directory_or_a_link_in_its_place_is_an_error_with_a_remedy(path: Path, tmp_path: Path, kind: str) -> None:
    if kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Failed) as reading:
        at(path).read()
    with pytest.raises(Failed) as raising:
        at(path).raise_to(head(1))
    for call in (reading, raising):
        assert call.value.code == "disk_failed"
        assert call.value.remedy
    assert not (tmp_path / "elsewhere").exists()


RAISE = """
import sys
from hashlib import sha256
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.high_water.file import FileHighWater
from holdfast.model.revision import Head
mark = FileHighWater(sys.argv[1], PosixDisk())
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    mark.raise_to(Head(number, sha256(str(number).encode()).hexdigest()))
"""


def climber(path: Path, numbers: range, *before: str) -> "subprocess.Popen[bytes]":
    args = [*before, sys.executable, "-B", "-c", RAISE, str(path), str(numbers.start), str(numbers.stop)]
    return subprocess.Popen(args, env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"]})


def has_risen(path: Path, last: int) -> bool:
    mark = at(path).read()
    return mark is not None and mark.number > last


def test_killed_at_random_moments_the_mark_only_ever_rises(path: Path) -> None:
    chance = random.Random(7)
    last = 0
    for at_once in (True, False) * 4:
        process = climber(path, range(last + 1, 1_000_000))
        if not at_once:
            wait_until(partial(has_risen, path, last), "the mark rises")
        time.sleep(0.15 + chance.random() / 5)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        mark = at(path).read()
        if mark is None:
            continue  # this one was killed before its first raise
        assert mark == head(mark.number)
        assert mark.number >= last
        last = mark.number
    assert last > 1


@pytest.mark.lab
@pytest.mark.parametrize("call", ["pwrite64", "write", "fchmod", "fsync", "rename,renameat,renameat2"])
def test_killed_at_every_call_the_mark_is_readable(path: Path, call: str) -> None:
    for n in range(1, 20):
        path.unlink(missing_ok=True)
        strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={n}"]
        status = climber(path, range(1, 8), *strace).wait(timeout=60)
        mark = at(path).read()
        if status == 0:
            assert mark == head(7)
            assert n > 1
            return
        if call == "pwrite64":  # creation is revision 1, so the n-th such write would have been for n + 1
            assert mark == head(n)
        else:
            assert mark in (None, head(1))
    pytest.fail("no run came through")
