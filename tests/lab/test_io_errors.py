"""R06, R05: a disk that refuses. No apply is called done that is not durable; errors have a code, a remedy and no
traceback; once the fault is gone the same command works and nothing is lost.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.fleets.counts import SOAK
from tests.lab.cases import Case, applied_digest, first_apply, second_apply
from tests.lab.product import Outcome, Place, Warm, warm

pytestmark = pytest.mark.lab

FAIL_AT = 200
FLUSHES = ("fsync", "fdatasync")
WRITES = ("pwrite64", "write", "renameat", "mkdir", "ftruncate")
READS = ("openat", "pread64")
INSTALLED = f'"{sys.prefix}/'  # a program that cannot load its own parts cannot explain itself either
CHECK = ("hub", "check", "--state-dir", ".ledger", "--json")
STRIDE = {} if SOAK else {"pwrite64": 8, "openat": 9, "pread64": 9}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return first_apply(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return second_apply(tmp_path_factory.mktemp("second"))


@pytest.fixture(scope="module")
def sound() -> Iterator[Warm]:
    with warm() as interpreter:
        yield interpreter


@pytest.fixture(scope="module")
def failing_once() -> Iterator[Warm]:
    with warm([f"{call}:error=EIO:when={FAIL_AT}" for call in (*FLUSHES, *WRITES, *READS)]) as interpreter:
        yield interpreter


def works_again(place: Place, case: Case, sound: Warm) -> None:
    """The same command, and everything that was there before."""
    assert applied_digest(sound.run(place, "apply", "--yes", "--json").ok()) == case.new
    assert sound.run(place, "plan").ok().out.startswith("No changes")
    check = sound.run(place, *CHECK).ok().json
    assert check["sound"] and check["revisions"] == (2 if case.old else 1)


def fails_cleanly(outcome: Outcome) -> dict[str, str]:
    assert outcome.code == 1, outcome
    return outcome.refused(1)


# ---- one call fails, at every position -------------------------------------------------------------------------------


def fail_everywhere(case: Case, call: str, failing: Warm, sound: Warm) -> int:
    """n = 1, 2, 3 … until no call is left to fail; returns how many failed."""
    for times, n in enumerate(count(1, STRIDE.get(call, 1))):
        place = case.before.copy(case.before.root.with_name(f"{call}-{n}"))
        outcome = failing.run(place, "apply", "--yes", "--json", idle={call: FAIL_AT - n})
        hit = failing.injected()
        if outcome.code == 0 and hit:
            is_covered(failing.seen(), place)
        elif hit:
            fails_cleanly(outcome)
        works_again(place, case, sound)
        if not hit:
            return times
    raise AssertionError("unreachable")


def is_covered(calls: list[str], place: Place) -> None:
    """Two failures may be ignored, since neither makes the revision less durable.

    SQLite's own flush of the ledger's directory, which the product flushes itself; and the high-water mark, written
    after the commit, which is allowed to lag behind.
    """
    at = next(number for number, call in enumerate(calls) if "(INJECTED" in call)
    directory = re.escape(str(place.ledger))
    of_sqlite = re.search(rf"fdatasync\(\d+<{directory}>", calls[at])
    of_mark = re.search(rf"<{directory}/(\.holdfast-\w+\.tmp|high-water)>|\"high-water\"", calls[at])
    of_name_of_mark = at > 0 and "renameat" in calls[at - 1] and '"high-water"' in calls[at - 1]
    assert of_sqlite or of_mark or of_name_of_mark, f"exit 0 after {calls[at]}"


@pytest.mark.parametrize("call", FLUSHES)
def test_no_first_apply_is_acknowledged_after_a_failed_flush(
    call: str, first: Case, failing_once: Warm, sound: Warm
) -> None:
    """R06"""
    assert fail_everywhere(first, call, failing_once, sound) >= {"fsync": 8, "fdatasync": 3}[call]


@pytest.mark.parametrize("call", FLUSHES)
def test_no_apply_is_acknowledged_after_a_failed_flush(
    call: str, second: Case, failing_once: Warm, sound: Warm
) -> None:
    """R06"""
    assert fail_everywhere(second, call, failing_once, sound) >= 2


@pytest.mark.parametrize("call", READS)
def test_an_apply_that_cannot_read_says_so_and_can_be_repeated(
    call: str, second: Case, failing_once: Warm, sound: Warm
) -> None:
    """R06: exit 0 only where the product can do without what it could not read."""
    for times, n in enumerate(count(1, STRIDE.get(call, 1))):
        place = second.before.copy(second.before.root.with_name(f"{call}-{n}"))
        outcome = failing_once.run(place, "apply", "--yes", "--json", idle={call: FAIL_AT - n})
        hit = failing_once.injected()
        if not any(INSTALLED in call for call in hit):
            assert "Traceback" not in outcome.err, f"{hit}: {outcome.err}"
            assert outcome.code == 0 or outcome.error["remedy"], outcome
        works_again(place, second, sound)
        if not hit:
            assert times >= 2
            return


@pytest.mark.parametrize("call", WRITES)
def test_an_apply_whose_write_fails_says_so_and_can_be_repeated(
    call: str, second: Case, failing_once: Warm, sound: Warm
) -> None:
    """R06; the last write is the report itself, on standard output."""
    assert fail_everywhere(second, call, failing_once, sound) >= 1


# ---- the disk is broken for good -------------------------------------------------------------------------------------

BROKEN = {
    "every flush": ("EIO", FLUSHES, "1+"),
    "every write": ("EIO", ("pwrite64",), "1+"),
    "no space from the third write": ("ENOSPC", ("pwrite64",), "3+"),
    "no space from the eighteenth write": ("ENOSPC", ("pwrite64",), "18+"),
    "no space for the memory of heads": ("ENOSPC", ("write",), "1"),
    "quota used up": ("EDQUOT", ("pwrite64",), "1+"),
    "read-only": ("EROFS", ("mkdir", "renameat", "pwrite64"), "1+"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_disk_that_stays_broken_refuses_every_apply(fault: str, first: Case, second: Case, sound: Warm) -> None:
    """R06, R05"""
    error, calls, when = BROKEN[fault]
    with warm([f"{call}:error={error}:when={when}" for call in calls]) as broken:
        for case in (first, second):
            place = case.before.copy(case.before.root.with_name(fault.replace(" ", "-")))
            refused = fails_cleanly(broken.run(place, "apply", "--yes", "--json"))
            assert broken.injected()
            if error in ("ENOSPC", "EDQUOT"):
                assert refused["code"] == "no_space" and "no space" in refused["message"]
            works_again(place, case, sound)


# ---- real file systems -----------------------------------------------------------------------------------------------


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[None]:
    subprocess.run(["mount", *words, str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_ledger_on_a_read_only_file_system_is_planned_from_and_not_applied_to(
    second: Case, sound: Warm, tmp_path: Path
) -> None:
    """R06: EROFS"""
    place = second.before.copy(tmp_path / "p")
    with mounted(place.ledger, "--bind", str(place.ledger)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place.ledger)], check=True)
        sound.run(place, "plan").ok()
        assert sound.run(place, *CHECK).ok().json["sound"]
        fails_cleanly(sound.run(place, "apply", "--yes", "--json"))
    works_again(place, second, sound)


def test_a_full_disk_refuses_with_the_old_head_intact_and_works_once_there_is_space(
    second: Case, sound: Warm, tmp_path: Path
) -> None:
    """R05: a ledger directory on a tmpfs of 1 MB, filled to different degrees."""
    place = second.before.copy(tmp_path / "p")
    hub = tmp_path / "hub"
    hub.mkdir()
    ledger = ("--hub", str(hub / "ledger"))
    with mounted(hub, "-t", "tmpfs", "-o", "size=1m", "none"):
        (place.fleet / "fleet.lock").unlink()  # this ledger is another one than the directory knows
        old = applied_digest(sound.run(place, "apply", "--yes", "--json", *ledger).ok())
        for left, change in ((0, 8082), (4096, 8083), (16384, 8084)):
            place.replace("services/hello.toml", "port = 808", f"port = {change}\n# 808")
            fill(hub, left)
            refused = fails_cleanly(sound.run(place, "apply", "--yes", "--json", *ledger))
            assert refused["code"] == "no_space" and "no space" in refused["message"]
            sound.run(place, "plan", *ledger).ok()
            history = sound.run(place, "history", "--json", *ledger).ok().json["revisions"]
            assert history[0]["digest"] == old
            (hub / "ballast").unlink()
            old = applied_digest(sound.run(place, "apply", "--yes", "--json", *ledger).ok())
            assert sound.run(place, "plan", *ledger).ok().out.startswith("No changes")


def fill(folder: Path, left: int) -> None:
    """Take all space but `left` bytes."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            size = os.fstat(file.fileno()).st_size
        file.truncate(max(0, size - left))
