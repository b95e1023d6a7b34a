"""Directories for drills: each drill has its own, apart from all data, and nothing of one stays (H-60)."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.storage.memory_scratch import MemoryScratch
from holdfast.adapters.storage.scratch import DirectoryScratch
from holdfast.agent.services.data.proofs import granted
from holdfast.errors import Conflict, Failed, Invalid, NotPermitted
from holdfast.gate.copies import may_clear, may_drill
from holdfast.ports.scratch import Clearable, Drillable, Scratch
from tests.contracts.test_filling import D, F, archive
from tests.fleets.handles import none_left_open


class Stage(NamedTuple):
    scratch: Scratch
    fill: Callable[[str, str, bytes], None]  # id, name, content
    names: Callable[[str], list[str]]  # of what is in it; a directory ends with "/"


def in_memory() -> Stage:
    made = MemoryScratch()
    return Stage(
        made, lambda id, name, text: made.contents[id].update({name: text}), lambda id: sorted(made.contents[id])
    )


def on_disk(root: Path) -> Stage:
    made = DirectoryScratch(str(root))

    def fill(id: str, name: str, text: bytes) -> None:
        path = Path(made.path(id)) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    def names(id: str) -> list[str]:
        top = Path(made.path(id))
        return sorted(f"{one.relative_to(top)}{'/' if one.is_dir() else ''}" for one in top.rglob("*"))

    return Stage(made, fill, names)


@pytest.fixture(params=["memory", "directory"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with none_left_open():
        yield in_memory() if request.param == "memory" else on_disk(tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DirectoryScratch]:
    with none_left_open():
        yield DirectoryScratch(str(tmp_path))


def drillable(id: str = "web-1", service: str = "web") -> Drillable:
    return granted(may_drill(service, id, "w1"))


def clearable(scratch: Scratch, id: str = "web-1") -> Clearable:
    """Made by the one who may: the journal marks the directory as scratch."""
    journal = MemoryJournal()
    journal.note_made(scratch.path(id), "drill", True)
    return granted(may_clear(journal, "web", id, scratch.path(id), "w1"))


def test_one_is_made_empty_and_never_twice(stage: Stage) -> None:
    scratch, fill, names = stage
    assert scratch.found() == [] and scratch.room_bytes() > 0
    assert scratch.make(drillable()) == scratch.path("web-1") and names("web-1") == []
    fill("web-1", "page", b"x")
    with pytest.raises(Conflict, match="there already"):
        scratch.make(drillable())
    assert names("web-1") == ["page"]
    scratch.make(drillable("web-2"))
    assert scratch.found() == ["web-1", "web-2"]


def test_one_is_cleared_with_all_that_is_in_it_and_no_other(stage: Stage) -> None:
    scratch, fill, _ = stage
    scratch.clear(clearable(scratch))  # not there: nothing to do
    for id in ("web-1", "web-2"):
        scratch.make(drillable(id))
        fill(id, "deep/er/page", b"x")
    for _ in range(2):
        scratch.clear(clearable(scratch))
        assert scratch.found() == ["web-2"]
    assert scratch.make(drillable()), "and made again"


def test_what_a_backup_brought_stays_and_what_it_did_not_is_made(stage: Stage) -> None:
    scratch, fill, names = stage
    scratch.make(drillable())
    fill("web-1", "files/page", b"x")
    assert scratch.volume(drillable(), "") == scratch.path("web-1")
    assert scratch.volume(drillable(), "cache") == f"{scratch.path('web-1')}/cache"
    assert scratch.volume(drillable(), "cache") == f"{scratch.path('web-1')}/cache", "twice is the same as once"
    assert scratch.volume(drillable(), "files") == f"{scratch.path('web-1')}/files"
    assert any(name.startswith("cache/") for name in names("web-1")) and any(
        "files/" in name for name in names("web-1")
    )
    fill("web-1", "app.conf", b"x")
    assert scratch.volume(drillable(), "app.conf") == f"{scratch.path('web-1')}/app.conf"
    assert "app.conf" in names("web-1"), "a file stays a file"


def test_a_volume_that_a_backup_did_not_bring_begins_with_what_the_image_has(stage: Stage) -> None:
    scratch, fill, names = stage
    scratch.make(drillable())
    fill("web-1", "files/page", b"x")
    assert scratch.lacks(drillable(), "cache") and not scratch.lacks(drillable(), "files")
    assert not scratch.lacks(drillable(), "") and not scratch.lacks(drillable(), "cache/deep"), "no volumes"
    seeded = (("data", D, 0o750, b""), ("data/seed", F, 0o640, b"12"))
    assert scratch.volume(drillable(), "cache", archive(*seeded)) == f"{scratch.path('web-1')}/cache"
    assert not scratch.lacks(drillable(), "cache")
    scratch.volume(drillable(), "files", archive(*seeded))
    assert set(names("web-1")) - {"files/"} == {"cache/", "cache/seed", "files/page"}, "what it brought is as it was"


@pytest.mark.parametrize("place", ["../web-2", "a/../../b", "a//b", "/etc", ".", "a/."])
def test_a_place_is_below_its_directory(stage: Stage, place: str) -> None:
    scratch, *_ = stage
    scratch.make(drillable())
    with pytest.raises(NotPermitted, match="not a plain path"):
        scratch.volume(drillable(), place)


@pytest.mark.parametrize("id", ["../web", ".web", "", "a/b", "x" * 101])
def test_a_name_that_leads_elsewhere_is_refused(stage: Stage, id: str) -> None:
    scratch, *_ = stage
    with pytest.raises(Invalid):
        scratch.path(id)
    with pytest.raises(Invalid):
        scratch.make(Drillable("web", id))
    with pytest.raises(Invalid):
        scratch.clear(Clearable(id))


# ---- on a disk


def test_only_root_enters_and_a_new_volume_is_as_that_of_the_service(disk: DirectoryScratch, tmp_path: Path) -> None:
    own = tmp_path / "web" / "files"
    own.mkdir(parents=True)
    os.chown(own, 971, 972)
    own.chmod(0o2750)
    top = Path(disk.make(drillable()))
    for path in (tmp_path / ".drills", top):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    about = Path(disk.volume(drillable(), "files")).stat()
    assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (971, 972, 0o2750)
    plain = Path(disk.volume(drillable(), "other/deep")).stat()
    assert (plain.st_uid, stat.S_IMODE(plain.st_mode)) == (0, 0o755)
    kept = top / "kept"
    kept.mkdir(mode=0o711)
    disk.volume(drillable(), "kept")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o711, "what a backup brought is as it was"


def test_owner_and_mode_of_a_new_volume_are_those_of_the_image_or_the_declared_owner(
    disk: DirectoryScratch, tmp_path: Path
) -> None:
    (tmp_path / "web" / "files").mkdir(parents=True, mode=0o700)
    disk.make(drillable())
    seeded = (("data", D, 0o750, b""), ("data/seed", F, 0o640, b"12"))
    for place, owner, expected in (("files", "", (1000, 1001)), ("cache", "7:8", (7, 8))):
        volume = Path(disk.volume(drillable(), place, archive(*seeded), owner))
        for path in (volume, volume / "seed"):
            assert (path.stat().st_uid, path.stat().st_gid) == expected, path
        assert stat.S_IMODE(volume.stat().st_mode) == 0o750 and (volume / "seed").read_bytes() == b"12"
    empty = Path(disk.volume(drillable(), "empty", None, "7:8")).stat()
    assert (empty.st_uid, empty.st_gid) == (7, 8)
    assert sorted(os.listdir(disk.path("web-1"))) == ["cache", "empty", "files"]


@pytest.mark.parametrize("place", ["link", "link/deep", "files/link/deep"])
def test_no_link_of_a_backup_leads_a_mount_elsewhere(disk: DirectoryScratch, tmp_path: Path, place: str) -> None:
    top, elsewhere = Path(disk.make(drillable())), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (top / "files").mkdir()
    (top / "link").symlink_to(elsewhere)
    (top / "files" / "link").symlink_to(elsewhere)
    with pytest.raises(NotPermitted):
        disk.volume(drillable(), place)
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_the_place_of_the_directory_is_not_followed(disk: DirectoryScratch, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "web-1").mkdir(parents=True)
    (precious / "web-1" / "page").write_text("x")
    (tmp_path / ".drills").symlink_to(precious)
    for act in (lambda: disk.make(drillable("web-2")), lambda: disk.clear(clearable(disk)), disk.room_bytes):
        with pytest.raises(NotPermitted):
            act()
    (tmp_path / ".drills").unlink()
    (tmp_path / ".drills").mkdir()
    (tmp_path / ".drills" / "web-1").symlink_to(precious / "web-1")
    with pytest.raises(NotPermitted):
        disk.clear(clearable(disk))
    assert (precious / "web-1" / "page").read_text() == "x" and disk.found() == []


def test_names_of_other_programs_are_not_found(disk: DirectoryScratch, tmp_path: Path) -> None:
    disk.make(drillable())
    (tmp_path / ".drills" / ".hidden").mkdir()
    (tmp_path / ".drills" / "file").write_text("x")
    assert disk.found() == ["web-1"]


def test_a_disk_that_is_gone_is_told_with_a_remedy(tmp_path: Path) -> None:
    gone = DirectoryScratch(str(tmp_path / "gone"))
    assert gone.found() == []
    for act in (gone.room_bytes, lambda: gone.make(drillable())):
        with pytest.raises(Failed) as told:
            act()
        assert told.value.code == "storage" and "df " in told.value.remedy
