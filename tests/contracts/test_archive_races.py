"""A program that writes while its files are archived: what was archived comes back, whatever it did and when.

The archiver process runs with one of its functions replaced: that does what the program does in the moment that counts.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters.archive.process import ProcessArchiver
from holdfast.errors import Failed
from holdfast.ports.archive import Packed
from tests.fleets.archives import Place, process_place

CHILD = """
import os
from holdfast.adapters.archive import child, source
from holdfast.adapters.walking import walk
{words}
child.main()
"""
AFTER_THE_HOLES = """
found = source.extents_of
tries = 0
def extents_of(file, about):
    global tries
    tries, extents = tries + 1, found(file, about)
    path = os.readlink(f"/proc/self/fd/{{file}}")
    writing = os.open(path, os.O_RDWR)
    {deed}
    os.close(writing)
    return extents
source.extents_of = extents_of
"""
BEFORE_IT_IS_OPENED = """
found = walk.opened_file
def opened_file(name, above):
    if name == "a" and os.path.exists({other!r}):
        {deed}
    return found(name, above)
walk.opened_file = opened_file
"""
LONG, SHORT = 40 << 20, 9 << 20
KEPT = 6 << 20  # where data is from the beginning


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield process_place(tmp_path)
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True, timeout=60)  # Python does not reach the deepest ones


def packed_beside(place: Place, words: str) -> Packed:
    whole = place.archiver
    place.archiver = ProcessArchiver((sys.executable, "-c", CHILD.format(words=words)))
    try:
        return place.pack()
    finally:
        place.archiver = whole


def sparse(place: Place, size: int) -> None:
    with open(place.top / "file", "wb") as file:
        file.truncate(size)
        os.pwrite(file.fileno(), b"kept", KEPT)


@pytest.mark.parametrize("size", [SHORT, LONG])
@pytest.mark.parametrize("at", [4 << 20, KEPT + (1 << 16)], ids=["in a hole", "beside data"])
def test_content_that_comes_into_a_hole_while_it_is_read_comes_back(place: Place, size: int, at: int) -> None:
    sparse(place, size)
    deed = f"os.pwrite(writing, os.urandom(5000), {at} + (tries << 16))"
    packed = packed_beside(place, AFTER_THE_HOLES.format(deed=deed))
    place.unpack(packed)
    with open(place.folder / "restored" / "file", "rb") as file:
        assert os.fstat(file.fileno()).st_size == size and os.pread(file.fileno(), 4, KEPT) == b"kept"
        assert held(file.read(), content(place)), "what was there before, or after"
        is_sparse = os.fstat(file.fileno()).st_blocks * 512 < size
    assert is_sparse == (size == LONG), "a part that was written to is data, and no other one"


@pytest.mark.parametrize("size", [SHORT, LONG])
@pytest.mark.parametrize("rest", [0, 100, KEPT + 2, KEPT + (1 << 20)])
def test_a_file_with_holes_that_becomes_shorter_while_it_is_read_comes_back(place: Place, size: int, rest: int) -> None:
    sparse(place, size)
    packed = packed_beside(place, AFTER_THE_HOLES.format(deed=f"os.ftruncate(writing, max({rest} - tries, 0))"))
    place.unpack(packed)
    restored = (place.folder / "restored" / "file").read_bytes()
    assert before(size).startswith(restored[: len(content(place))]) and not restored[KEPT + 4 :].strip(b"\0")


def held(restored: bytes, now: bytes) -> bool:
    """Each block as it was before or after one of the writes."""
    blocks = ((restored[at : at + 4096], now[at : at + 4096]) for at in range(0, len(now), 4096))
    return len(restored) == len(now) and all(one in (bytes(len(other)), other) for one, other in blocks)


def content(place: Place) -> bytes:
    return (place.top / "file").read_bytes()


def before(size: int) -> bytes:
    return bytes(KEPT) + b"kept" + bytes(size - KEPT - 4)


@pytest.mark.parametrize("deed", ["os.unlink({path!r})", "os.rename({other!r}, {path!r})"], ids=["gone", "replaced"])
def test_other_names_of_a_file_have_its_content_when_the_first_name_goes(place: Place, deed: str) -> None:
    """What a link names in the archive must be that file."""
    place.write({"a": b"of three names"})
    for name in ("b", "c"):
        os.link(place.top / "a", place.top / name)
    other, path = place.folder / "other", str(place.top / "a")
    other.write_bytes(b"another file")
    done = deed.format(path=path, other=str(other)) + f"; os.path.exists({str(other)!r}) and os.unlink({str(other)!r})"
    packed = packed_beside(place, BEFORE_IT_IS_OPENED.format(deed=done, other=str(other)))
    place.unpack(packed)
    restored = place.read("restored")
    assert restored.pop("a", b"another file") == b"another file"
    assert restored == {"b": b"of three names", "c": b"of three names"}
    assert os.path.samefile(place.folder / "restored" / "b", place.folder / "restored" / "c")


def test_times_that_no_manifest_holds_are_kept_as_far_as_it_does(place: Place) -> None:
    place.write({"late": b"1", "folder/near": b"2"})
    os.utime(place.top / "late", (1, 7_258_118_400))  # 2200
    os.utime(place.top / "folder", (1, 7_258_118_400))
    packed = place.pack()
    place.unpack(packed)
    restored = place.folder / "restored"
    assert place.read("restored") == {"late": b"1", "folder/near": b"2"}
    assert (restored / "late").stat().st_mtime_ns == (restored / "folder").stat().st_mtime_ns == 1 << 62
    assert place.pack().new_packs == 0


def test_what_is_too_deep_for_a_restore_fails_the_backup(place: Place) -> None:
    here = os.open(place.top, os.O_RDONLY)
    for _ in range(4100):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with pytest.raises(Failed, match="4,096 directories"):
        place.pack()
