"""S10 for updates: the archives of test_archive_hostile.py, on a directory that has a tree and symlinks already."""

import time
from collections.abc import Callable
from hashlib import sha256

import pytest

from holdfast.errors import HoldfastError
from holdfast.ports.archive import Packed
from tests.contracts.test_archive_hostile import (
    GOOD,
    HARMLESS,
    REFUSED,
    WITHIN_S,
    check_harmless,
    entry,
    file,
    listed,
    one,
    place,
    tar,
)
from tests.fleets.archiver_here import unpack_here, update_here
from tests.fleets.archives import Place, facts

__all__ = ["place"]

# A symlink to the outside where archives look for a directory, and files and directories with the names that they use.
OLD = b"before"
BEFORE = listed(
    entry("a"), entry("hard"), entry("link", "symlink", target="../outside"),
    file("x", size=len(OLD), sha256=sha256(OLD).hexdigest()), entry("d", "dir"), entry("d/y"), entry("out", "dir"),
    pack=lambda place: tar(place, one("x", OLD)),
)  # fmt: skip
LINK = entry("link", "symlink", target="../outside")
ALSO: dict[str, Callable[[Place], Packed]] = {
    "below a symlink that is there": listed(LINK, file("link/x"), pack=GOOD),
    "below a symlink that was a directory": listed(entry("out", "symlink", target="../outside"), file("out/x")),
    "a hard link through a symlink that is there": listed(entry("hard", link="link/secret"), LINK),
    "a hard link to a symlink that is there": listed(entry("hard", link="link"), LINK),
    "a hard link to a directory that is there": listed(entry("hard", link="d"), entry("d", "dir")),
    "a hard link to a file that goes": listed(entry("hard", link="a")),
    "a directory that goes, and what is in it stays": listed(entry("d/y")),
    "what is there, twice": listed(entry("a"), entry("a"), entry("hard")),
    "parts of another size than it says": listed(
        entry("x", size=5 << 20, parts=[{"size": 65_536}] * 80, data=[[0, 0]])
    ),
}


@pytest.mark.parametrize("name", [*REFUSED, *ALSO])
def test_s10_a_hostile_update_is_refused_and_a_right_one_repairs(place: Place, name: str) -> None:
    outside, before = facts(place.folder / "outside"), BEFORE(place)
    unpack_here(place, before, "restored")
    there = facts(place.folder / "restored")
    packed = {**REFUSED, **ALSO}[name](place)
    began_s = time.monotonic()
    with pytest.raises(HoldfastError) as found:
        update_here(place, packed, "restored")
    assert time.monotonic() - began_s < WITHIN_S and found.value.code in ("archive_damaged", "no_space")
    check_harmless(place, outside)
    update_here(place, before, "restored")
    assert facts(place.folder / "restored") == there


@pytest.mark.parametrize("name", HARMLESS)
def test_s10_an_odd_update_does_no_harm(place: Place, name: str) -> None:
    outside, before = facts(place.folder / "outside"), BEFORE(place)
    unpack_here(place, before, "restored")
    there = facts(place.folder / "restored")
    update_here(place, HARMLESS[name](place), "restored")
    check_harmless(place, outside)
    update_here(place, before, "restored")
    assert facts(place.folder / "restored") == there
