"""R02: `holdfast apply` killed at every single flush, rename, write … leaves the old revision or the new one.

The positions are enumerated, not sampled: n = 1, 2, 3 … until a run completes un-hit. Three things wait for the soak
(HOLDFAST_SOAK=1): every write instead of each fourth, calls that can hardly matter, most of the large, staged apply.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import apsw
import pytest

from tests.fleets.counts import SOAK
from tests.lab.cases import Case, applied_digest, case, first_apply, second_apply
from tests.lab.product import KILLED, Place, Warm, fingerprints, new_place

pytestmark = pytest.mark.lab

WORKERS = 2
KILL_AT = 200
CALLS = ["fsync", "fdatasync", "renameat", "link", "unlink", "mkdir", "ftruncate", "pwrite64"]
CALLS += ["rename", "unlinkat", "fchmod", "chmod", "write"] if SOAK else []
STRIDE = {"pwrite64": 1 if SOAK else 4}
STAGED_CALLS = ["fdatasync", "fsync", "renameat"]
Note = Callable[[str, object], None]
CHECK = ("hub", "check", "--state-dir", ".ledger", "--json")


@dataclass(frozen=True)
class Crew:
    """An interpreter whose commands die at their KILL_AT-th call of any kind, and one that is left alone."""

    doomed: Warm
    sound: Warm


@contextmanager
def hired(calls: Sequence[str]) -> Iterator[list[Crew]]:
    faults = [f"{call}:signal=SIGKILL:when={KILL_AT}" for call in calls]
    interpreters: list[Warm] = []
    try:
        for given in (faults, ()) * WORKERS:
            interpreters.append(Warm(given))
        yield [Crew(*interpreters[at : at + 2]) for at in range(0, len(interpreters), 2)]
    finally:
        for interpreter in interpreters:
            interpreter.close()


@pytest.fixture(scope="module")
def crews() -> Iterator[list[Crew]]:
    with hired(CALLS) as crews:
        yield crews


@pytest.fixture(scope="module")
def staging_crews() -> Iterator[list[Crew]]:
    """A large apply makes more writes than KILL_AT by itself; it is killed at its flushes and renames."""
    with hired(STAGED_CALLS) as crews:
        yield crews


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return first_apply(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return second_apply(tmp_path_factory.mktemp("second"))


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """More contents than one transaction takes, so that they are staged ahead of the revision."""
    place = new_place(tmp_path_factory.mktemp("staged") / "p")
    old = applied_digest(place.run("apply", "--yes", "--json").ok())
    for number in range(2_100):
        place.service(f"s{number}", env=str(number))
    return case(place, old)


@dataclass(frozen=True)
class Cut:
    """Was the apply killed, and did it leave a commit to be settled?"""

    killed: bool
    pending: bool


def cut_at(case: Case, call: str, n: int, crew: Crew) -> Cut:
    """Kill an apply at its n-th `call` and look at what is left; not killed when it has fewer calls than that."""
    place = case.before.copy(case.before.root.with_name(f"{call}-{n}"))
    killed = crew.doomed.run(place, "apply", "--yes", "--json", idle={call: KILL_AT - n})
    assert killed.code in (0, KILLED), killed
    if killed.code == 0:
        assert head(place, crew) == case.new
    pending = is_old_or_new(place, case, crew)
    goes_on(place, case, crew)
    shutil.rmtree(place.root)
    return Cut(killed.code == KILLED, pending)


def is_old_or_new(place: Place, case: Case, crew: Crew) -> bool:
    """True if there was a commit cut short, which a sweep had to settle."""
    before = fingerprints(place.ledger)
    check = crew.sound.run(place, *CHECK)
    assert fingerprints(place.ledger) == before, "hub check wrote into the ledger"
    codes = [finding["code"] for finding in check.json["findings"]]
    if not case.old and codes == ["ledger_missing"]:
        return False
    pending = codes == ["ledger_recovery_pending"]
    if pending:
        check = crew.sound.run(place, *CHECK, "--sweep")
        assert contents(place) == contents(case.before), "staged contents were left behind"
    assert (check.code, check.json["sound"]) == (0, True), check  # every signature and digest was verified
    assert head(place, crew) in (case.old, case.new)
    return pending


def contents(place: Place) -> set[str]:
    db = apsw.Connection(str(place.database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {str(row[0]) for row in db.execute("SELECT digest FROM blobs")}
    finally:
        db.close()


def head(place: Place, crew: Crew) -> str:
    revisions = crew.sound.run(place, "history", "--json").ok().json["revisions"]
    return str(revisions[0]["digest"]) if revisions else ""


def goes_on(place: Place, case: Case, crew: Crew) -> None:
    """Neither fleet.lock nor the memory of heads is in the way, and the same command reaches the goal."""
    crew.sound.run(place, "plan").ok()
    assert applied_digest(crew.sound.run(place, "apply", "--yes", "--json").ok()) == case.new
    assert crew.sound.run(place, "plan").ok().out.startswith("No changes")
    assert crew.sound.run(place, *CHECK).ok().json["sound"]
    assert case.new in (place.fleet / "fleet.lock").read_text()


def every_position(case: Case, call: str, crews: list[Crew]) -> int:
    """The workers take turns at the numbers; each goes on until one of its own is not hit."""
    numbers = count(1, STRIDE.get(call, 1))

    def work(crew: Crew) -> int:
        return sum(1 for _ in iter(lambda: cut_at(case, call, next(numbers), crew).killed, False))

    with ThreadPoolExecutor(len(crews)) as pool:
        return sum(pool.map(work, crews))


@pytest.mark.parametrize("call", CALLS)
def test_a_first_apply_killed_anywhere_leaves_nothing_or_the_first_revision(
    call: str, first: Case, crews: list[Crew], record_property: Note
) -> None:
    """R02, I-08"""
    killed = every_position(first, call, crews)
    record_property("killed", killed)
    assert killed >= AT_LEAST_FIRST[call]


@pytest.mark.parametrize("call", CALLS)
def test_an_apply_killed_anywhere_leaves_the_old_or_the_new_revision(
    call: str, second: Case, crews: list[Crew], record_property: Note
) -> None:
    """R02, I-08"""
    killed = every_position(second, call, crews)
    record_property("killed", killed)
    assert killed >= AT_LEAST_SECOND[call]


# So that the enumeration cannot become empty unnoticed: calls that an apply is known to make.
AT_LEAST_FIRST = dict.fromkeys(CALLS, 0) | {"fsync": 10, "fdatasync": 3, "renameat": 3, "link": 1, "pwrite64": 6}
AT_LEAST_SECOND = dict.fromkeys(CALLS, 0) | {"fsync": 5, "fdatasync": 1, "renameat": 2, "pwrite64": 4}


def test_a_staged_apply_killed_between_its_portions_leaves_the_old_or_the_new_revision(
    staged: Case, staging_crews: list[Crew], record_property: Note
) -> None:
    """R02: more than 2,000 contents; the record of a commit under way is settled by `hub check --sweep`."""
    positions = [(call, n) for call in STAGED_CALLS for n in range(1, 10)] if SOAK else SAMPLED

    def work(at: int) -> list[Cut]:
        return [cut_at(staged, call, n, staging_crews[at]) for call, n in positions[at::WORKERS]]

    with ThreadPoolExecutor(WORKERS) as pool:
        cuts = [cut for found in pool.map(work, range(WORKERS)) for cut in found]
    record_property("killed", sum(cut.killed for cut in cuts))
    assert sum(cut.killed for cut in cuts) >= 4
    assert sum(cut.pending for cut in cuts) >= 3


# Flushes of a staged apply: the record (1, 2), three portions (3, 4, 5), the revision (6).
SAMPLED = [("fdatasync", n) for n in (1, 3, 5, 6)]
