"""A request counts once: also after a kill, also on a full disk, for as long as it could come again (W8, S07)."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.nonces import sqlite
from holdfast.adapters.nonces.memory import SWEEP_EVERY, MemoryNonces
from holdfast.adapters.nonces.sqlite import FORGET_ROWS, SqliteNonces
from holdfast.errors import Corrupt, Failed
from holdfast.ports.nonces import Nonces

NOW_S = 1_700_000_000.0
KEY, OTHER = "ssh-ed25519 AAAA", "ssh-ed25519 BBBB"


class Place:
    def __init__(self, kind: str, folder: Path) -> None:
        self.clock = VirtualClock(NOW_S)
        self.path = str(folder / "nonces.db")
        self.nonces: Nonces = SqliteNonces(self.path, self.clock) if kind == "sqlite" else MemoryNonces(self.clock)

    def admit(self, nonce: str, key: str = KEY, for_s: float = 120.0) -> bool:
        return self.nonces.admit(key, nonce, self.clock.now_s() + for_s).result(60)


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(request.param, tmp_path)
    yield made
    made.nonces.close()


def test_the_first_is_admitted_and_no_later_one(place: Place) -> None:
    assert [place.admit("one"), place.admit("one"), place.admit("one")] == [True, False, False]


def test_nonces_of_other_keys_and_other_nonces_are_others(place: Place) -> None:
    assert all([place.admit("one"), place.admit("two"), place.admit("one", OTHER)])
    assert not any([place.admit("two"), place.admit("one", OTHER)])


def test_key_and_nonce_are_not_run_together(place: Place) -> None:
    assert place.admit("bc", "a") and place.admit("c", "ab")


def test_it_is_refused_until_its_time_has_passed(place: Place) -> None:
    assert place.admit("one", for_s=120)
    place.clock.sleep(120)
    assert not place.admit("one")
    place.clock.sleep(1)
    assert place.admit("one")


def test_many_at_once_let_exactly_one_through(place: Place) -> None:
    answers: list[bool] = []

    def try_all() -> None:
        answers.extend([place.admit(f"n{number}") for number in range(20)])

    threads = [threading.Thread(target=try_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (answers.count(True), len(answers)) == (20, 160)


def test_the_same_twice_in_one_group_lets_one_through(place: Place) -> None:
    asked = [place.nonces.admit(KEY, f"n{number % 50}", NOW_S + 60) for number in range(500)]
    assert sum(future.result(60) for future in asked) == 50


def test_what_expired_is_forgotten(place: Place) -> None:
    for future in [place.nonces.admit(KEY, f"old{number}", NOW_S + 10) for number in range(SWEEP_EVERY - 1)]:
        future.result(60)
    place.clock.sleep(3600)
    if isinstance(place.nonces, MemoryNonces):
        assert place.admit("new")
        assert len(place.nonces._until_s) == 1
    else:  # in small portions, one with each group, so that nobody waits for a great sweep
        groups = SWEEP_EVERY // FORGET_ROWS + 2
        before = _rows(place.path)
        assert place.admit("new 0") and before - FORGET_ROWS <= _rows(place.path) < before
        assert all(place.admit(f"new {number}") for number in range(1, groups))
        assert _rows(place.path) == groups


def _rows(path: str) -> int:
    db = apsw.Connection(path)
    try:
        return int(db.execute("SELECT count(*) FROM taken").get)
    finally:
        db.close()


# ---- the file


def test_a_great_heap_is_forgotten_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "FORGET_ROWS", 100)
    place = Place("sqlite", tmp_path)
    for future in [place.nonces.admit(KEY, f"old{number}", NOW_S + 1) for number in range(350)]:
        future.result(60)
    place.clock.sleep(3600)
    left = []
    for number in range(5):
        place.admit(f"new{number}")
        left.append(_rows(place.path))
    place.nonces.close()
    assert left == [251, 152, 53, 4, 5]


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    assert place.admit("one")
    place.nonces.close()
    again = Place("sqlite", tmp_path)
    assert not again.admit("one") and again.admit("two")
    again.nonces.close()


class Watched(apsw.VFS):
    """The system's files, with a count of flushes of the log."""

    def __init__(self) -> None:
        super().__init__("watched", base="unix", makedefault=True)
        self.flushes = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return WatchedFile(self, name, flags)


class WatchedFile(apsw.VFSFile):
    def __init__(self, disk: Watched, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk, self._is_log = disk, bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.flushes += self._is_log


def test_nobody_is_admitted_before_the_flush(tmp_path: Path) -> None:
    disk = Watched()
    try:
        place = Place("sqlite", tmp_path)
        before = disk.flushes
        assert all(place.admit(f"n{number}") for number in range(10))
        assert disk.flushes - before >= 10
        place.nonces.close()
    finally:
        disk.unregister()


CHILD = """
import sys, time
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.nonces.sqlite import FORGET_ROWS, SqliteNonces
nonces = SqliteNonces(sys.argv[1], SystemClock())
for number in range(10_000):
    print(number, nonces.admit("key", f"n{number}", time.time() + 120).result(60), flush=True)
"""


def test_what_was_admitted_is_refused_after_a_kill(tmp_path: Path) -> None:
    """kill -9 in the middle of admitting: every nonce that was said to be taken is taken."""
    from holdfast.adapters.clock.system import SystemClock

    path = str(tmp_path / "nonces.db")
    source = str(Path(sqlite.__file__).parents[3])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": source}
    )
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(40)]
    os.kill(child.pid, signal.SIGKILL)
    said += child.stdout.readlines()
    child.wait(60)
    child.stdout.close()
    assert all(line.split()[1] == "True" for line in said if line.endswith("\n"))
    nonces = SqliteNonces(path, SystemClock())
    taken = [int(line.split()[0]) for line in said if line.endswith("\n")]
    assert len(taken) >= 40
    asked = [nonces.admit("key", f"n{number}", NOW_S) for number in taken]
    assert not any(future.result(60) for future in asked)
    nonces.close()


def test_a_file_cut_off_while_it_was_made_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "nonces.db").touch(0o600)
    place = Place("sqlite", tmp_path)
    assert place.admit("one") and not place.admit("one")
    place.nonces.close()


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_refused_and_says_what_to_do(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "nonces.db").write_bytes(content)
    with pytest.raises(Corrupt) as raised:
        Place("sqlite", tmp_path)
    assert "two minutes" in raised.value.remedy


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "nonces.db"))
    db.execute("CREATE TABLE precious (x)")
    db.close()
    with pytest.raises(Corrupt):
        Place("sqlite", tmp_path)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(Failed):
        SqliteNonces(str(tmp_path / "missing" / "nonces.db"), VirtualClock(NOW_S))


def test_a_full_disk_admits_nobody_and_recovers(tmp_path: Path) -> None:
    """R06: in doubt it is refused; with space again it goes on, and what failed was not taken."""
    place = Place("sqlite", tmp_path)
    assert isinstance(place.nonces, SqliteNonces)
    assert place.admit("before")
    place.nonces._db.execute(f"PRAGMA max_page_count={place.nonces._db.pragma('page_count')}")
    number = 0
    with pytest.raises(Failed) as raised:
        for number in range(2000):
            place.admit(f"n{number}")
    assert raised.value.code == "no_space"
    assert not place.admit("before")  # a question that writes nothing is still answered
    place.nonces._db.execute("PRAGMA max_page_count=1000000")
    assert place.admit(f"n{number}")
    place.nonces.close()


def test_after_a_failed_flush_nothing_is_admitted_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("sqlite", tmp_path)
    assert isinstance(place.nonces, SqliteNonces)
    assert place.admit("before")

    def fail() -> None:
        raise apsw.IOError("disk I/O error")

    monkeypatch.setattr(place.nonces, "_forget_when_due", fail)
    with pytest.raises(Failed):
        place.admit("one")
    monkeypatch.undo()
    with pytest.raises(Failed) as raised:
        place.admit("two")
    assert raised.value.code == "nonces_failed"
    place.nonces.close()
    again = Place("sqlite", tmp_path)
    assert again.admit("one") and not again.admit("before")
    again.nonces.close()


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    place.admit("one")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    place.nonces.close()


def test_the_log_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 20)
    place = Place("sqlite", tmp_path)
    for number in range(100):
        place.admit(f"n{number}")
    assert os.path.getsize(place.path + "-wal") < 200_000
    assert not place.admit("n0")
    place.nonces.close()
