"""N36: `rollback --write` and `history show --files`, killed at every step or on a disk that is full.

No declared file is lost or half written: each is as it was or as the revision has it, and what it was is then in
.before-revision-N, which is whole or not there. The soak (HOLDFAST_SOAK=1) takes every position.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.fleets.counts import SOAK
from tests.lab.product import KILLED, Outcome, Place, Warm, new_place, warm

pytestmark = pytest.mark.lab

FAIL_AT = 200
STRIDES = {"fsync": 3, "write": 2, "renameat": 2, "rename": 1, "mkdir": 1, "unlink": 1}
BACK = ("rollback", "1", "--write", "--yes", "--allow-removals", "1", "--json")


def declared(place: Place) -> dict[str, bytes]:
    """The files of the directory that a fleet consists of, by path."""
    found = [place.fleet / "fleet.toml", *place.fleet.glob("services/[!.]*")]
    return {str(path.relative_to(place.fleet)): path.read_bytes() for path in found}


class Case:
    """Revision 1 has hello and old, revision 2 another hello and new; the files say revision 2."""

    def __init__(self, room: Path) -> None:
        self.before = new_place(room / "p")
        self.before.service("old", env="1")
        self.before.run("apply", "--yes").ok()
        (self.before.fleet / "services/old.toml").unlink()
        self.before.service("new", env="2")
        self.before.replace("services/hello.toml", "port = 8080", "port = 8081")
        self.before.run("apply", "--yes", "--allow-removals", "1").ok()
        self.now = declared(self.before)
        whole = self.before.copy(room / "whole")
        whole.run(*BACK).ok()
        self.then = declared(whole)
        assert self.then.keys() == {"fleet.toml", "services/hello.toml", "services/old.toml"}
        assert sorted(path for path, text in self.now.items() if self.then.get(path) != text) == CHANGED

    def is_safe(self, place: Place) -> bool:
        """True if every file is as the revision has it."""
        found = declared(place)
        kept = [path for path in place.fleet.iterdir() if path.name.startswith(".before-revision-3")]
        for one in kept:
            copies = {str(path.relative_to(one)): path.read_bytes() for path in one.rglob("*") if path.is_file()}
            assert copies == {path: self.now[path] for path in CHANGED}, one
        for path in self.now.keys() | self.then.keys() | found.keys():
            assert found.get(path) in (self.now.get(path), self.then.get(path)), path
            assert found.get(path) == self.now.get(path) or path not in self.now or kept, f"{path} is kept nowhere"
        return found == self.then


CHANGED = ["services/hello.toml", "services/new.toml"]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("case"))


@pytest.fixture(scope="module")
def sound() -> Iterator[Warm]:
    with warm() as interpreter:
        yield interpreter


def everywhere(case: Case, fault: str, failing: Warm, sound: Warm) -> dict[str, list[Outcome]]:
    """n = 1, 2, 3 … until no call is left to fail."""
    found: dict[str, list[Outcome]] = {}
    for call, stride in STRIDES.items():
        for n in count(1, 1 if SOAK else stride):
            place = case.before.copy(case.before.root.with_name(f"{fault}-{call}-{n}"))
            outcome = failing.run(place, *BACK, idle={call: FAIL_AT - n})
            if outcome.code != KILLED and not failing.injected():
                assert outcome.code == 0 and case.is_safe(place)
                break
            is_done = case.is_safe(place)
            assert is_done or outcome.code != 0, (call, n, outcome)
            head = sound.run(place, "history", "--json").ok().json["revisions"][0]["number"]
            assert head in (2, 3)
            sound.run(place, "validate").ok()  # what a killed process leaves is hidden
            found.setdefault(call, []).append(outcome)
            if not is_done and head == 3:
                goes_on(place, case, sound)
            shutil.rmtree(place.root)
    return found


def goes_on(place: Place, case: Case, sound: Warm) -> None:
    """The revision is applied and not all files are written: its files can be got, and say it."""
    sound.run(place, "history", "show", "3", "--files", "../files").ok()
    assert sound.run(place, "plan", "--fleet", "../files", "--hub", ".ledger").ok().out.startswith("No changes")


def test_a_rollback_that_is_killed_loses_no_file_and_leaves_none_half_written_n36(case: Case, sound: Warm) -> None:
    with warm([f"{call}:signal=SIGKILL:when={FAIL_AT}" for call in STRIDES]) as doomed:
        found = everywhere(case, "killed", doomed, sound)
    assert {outcome.code for outcomes in found.values() for outcome in outcomes} == {KILLED}
    assert found.keys() >= {"fsync", "write", "renameat", "rename", "mkdir"}


def test_a_rollback_on_a_full_disk_loses_no_file_and_says_what_it_did_n36(case: Case, sound: Warm) -> None:
    with warm([f"{call}:error=ENOSPC:when={FAIL_AT}" for call in STRIDES]) as failing:
        found = everywhere(case, "full", failing, sound)
    failed = [outcome.refused(1) for outcomes in found.values() for outcome in outcomes if outcome.code]
    texts = [trouble["message"] for trouble in failed]
    assert any("No file of . was changed; revision 3 is applied" in text for text in texts), texts
    assert any("Not all files were written. The files of before are in ./.before-" in text for text in texts), texts


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", place], check=True, timeout=60)
    yield place
    subprocess.run(["umount", place], check=True, timeout=60)


@pytest.mark.parametrize("name", ["files", "."], ids=["new", "mount point"])
def test_the_files_of_a_revision_on_a_full_disk_leave_nothing_n36(
    case: Case, sound: Warm, small_disk: Path, name: str
) -> None:
    place = case.before.copy(small_disk.parent / "p")
    for number in range(5):
        place.service(f"large{number}", env="x" * 4_000)
    sound.run(place, "apply", "--yes").ok()
    trouble = sound.run(place, "history", "show", "3", "--files", str(small_disk / name), "--json").refused(1)
    assert trouble["code"] == "no_space" and "Nothing of revision 3 was left in" in trouble["message"]
    assert list(small_disk.iterdir()) == []
    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True, timeout=60)
    sound.run(place, "history", "show", "3", "--files", str(small_disk / name)).ok()
    assert (small_disk / name / "services/large4.toml").exists()
