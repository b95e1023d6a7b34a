"""When a disk is filling up (issue 14): bytes and files, with hysteresis, one finding for each file system."""

import pytest

from holdfast.model.disk_room import DiskRoom
from holdfast.status import disks


def room(free: int, files: int = 50, name: str = "data", device: int = 1) -> DiskRoom:
    """In hundredths."""
    return DiskRoom(name, f"/{name}", device, (100 - free) << 30, free << 30, 100 - files, files)


@pytest.mark.parametrize(
    ("free", "files", "before", "is_filling"),
    [
        (10, 50, False, False),
        (9, 50, False, True),
        (14, 50, True, True),
        (15, 50, True, False),
        (50, 9, False, True),
        (50, 14, True, True),
        (50, 15, True, False),
        (0, 0, False, True),
    ],
)
def test_it_begins_below_a_tenth_and_ends_at_fifteen_hundredths(
    free: int, files: int, before: bool, is_filling: bool
) -> None:
    found = list(disks.filling([room(free, files)], ["data"] if before else []))
    assert bool(found) == is_filling


@pytest.mark.parametrize(
    ("free_gib", "free_files", "before", "is_filling"),
    [
        (20, 1_000_000, False, False),  # of 4 TiB and 268 million inodes
        (19.9, 1_000_000, False, True),
        (20, 999_999, False, True),
        (29.9, 2_000_000, True, True),
        (30, 1_499_999, True, True),
        (30, 1_500_000, True, False),
    ],
)
def test_a_large_disk_is_judged_by_what_is_left(
    free_gib: float, free_files: int, before: bool, is_filling: bool
) -> None:
    """A tenth of 4 TiB lasts for months."""
    free = int(free_gib * (1 << 30))
    one = DiskRoom("data", "/data", 1, (4 << 40) - free, free, 268_000_000 - free_files, free_files)
    assert bool(list(disks.filling([one], ["data"] if before else []))) == is_filling


def test_it_says_what_is_short() -> None:
    (both,) = disks.filling([room(5, 2)], [])
    assert both.message == "the disk of /data is filling up: 5% free (5.0 GiB of 100 GiB), 2% of its inodes free"
    (files,) = disks.filling([room(50, 2)], [])
    assert "GiB" not in files.message and "inodes" in files.message
    assert disks.remedy("/my data", "w1").startswith("`df -h '/my data'` and `df -i '/my data'` on w1")


def test_directories_on_one_file_system_are_one_finding() -> None:
    rooms = [room(5), room(5, name="state"), room(5, name="containers", device=2), room(90, name="x", device=3)]
    found = list(disks.filling(rooms, []))
    assert [one.name for one in found] == ["data", "containers"]
    assert "/data and /state" in found[0].message


def test_a_file_system_without_a_limit_of_files_is_judged_by_its_bytes() -> None:
    assert list(disks.filling([DiskRoom("data", "/data", 1, 10, 90, 0, 0)], [])) == []
    assert list(disks.filling([DiskRoom("proc", "/proc", 1, 0, 0, 0, 0)], [])) == []
