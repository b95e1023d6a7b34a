"""What a new volume begins with: all of an image's directory or nothing, and never over data (N13)."""

import errno
import io
import os
import stat
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.storage import blocks, filling, tree
from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.errors import Failed, HoldfastError, Invalid, NotPermitted
from holdfast.ports.allowed import Allowed
from holdfast.ports.runtime import ImageDirectory
from tests.fleets.doors import OpenStorage
from tests.fleets.handles import none_left_open

D, F, SYM, HARD = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def archive(*entries: tuple[str, bytes, int, bytes | str], owner: tuple[int, int] = (1000, 1001)) -> ImageDirectory:
    """A tar of a whole image; the directory that is meant is `data`. Each: path, type, mode, content or target."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as made:
        for path, kind, mode, content in (("bin/sh", F, 0o755, b"program"), *entries):
            member = tarfile.TarInfo(path)
            member.type, member.mode, member.uid, member.gid, member.mtime = kind, mode, *owner, 1_700_000_000
            text = content if isinstance(content, bytes) else b""
            member.linkname, member.size = content if isinstance(content, str) else "", len(text)
            made.addfile(member, io.BytesIO(text))
    target.seek(0)
    return ImageDirectory("data", target)


SEEDED = (
    ("data", D, 0o750, b""),
    ("data/seed", F, 0o640, b"seed"),
    ("database", D, 0o755, b""),
    ("database/x", F, 0o644, b"x"),
)


class Place:
    def __init__(self, storage: Any, write: Any) -> None:
        self.storage, self.write = storage, write


@pytest.fixture(params=["memory", "directory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        memory = MemoryStorage("w1")
        return Place(OpenStorage(memory, "/memory"), lambda: memory.contents["web"].__setitem__("book/page", b"1"))
    (tmp_path / "srv").mkdir()
    root = tmp_path / "srv"
    return Place(OpenStorage(DirectoryStorage(str(root), "w1"), str(root)), lambda: _page(root))


def _page(root: Path) -> None:
    (root / "web" / "book" / "page").write_bytes(b"1")


def test_an_empty_volume_takes_what_the_image_has_n13(place: Place) -> None:
    place.storage.volume("web", "book")
    assert place.storage.fill("web", "book", archive(*SEEDED))
    found = place.storage.content("web/book")
    assert (found.owner, found.files, found.size_bytes, found.names) == ("1000:1001", 1, 4, ("seed",))


def test_a_declared_owner_wins_and_can_be_changed_n13(place: Place) -> None:
    place.storage.volume("web", "book")
    place.storage.fill("web", "book", archive(*SEEDED), "33:34")
    assert place.storage.content("web/book").owner == "33:34"
    place.storage.own("web", "book", "35:36")
    assert place.storage.content("web/book").owner == "35:36"


def test_a_volume_with_content_is_left_as_it_is_n13(place: Place) -> None:
    place.storage.volume("web", "book")
    place.write()
    assert not place.storage.fill("web", "book", archive(*SEEDED))
    found = place.storage.content("web/book")
    assert (found.owner, found.names) == ("0:0", ("page",))


def test_a_permission_for_another_act_or_path_fills_nothing(place: Place) -> None:
    place.storage.volume("web", "book")
    root = place.storage._root
    for act, path in (("MOUNT", f"{root}/web/book"), ("OVERWRITE_DATA", f"{root}/web/other")):
        with pytest.raises(NotPermitted, match="does not permit"):
            place.storage.inner.fill("web", "book", archive(*SEEDED), "", Allowed(act, path))
        with pytest.raises(NotPermitted, match="does not permit"):
            place.storage.inner.own("web", "book", "1:1", Allowed(act, path))
    assert place.storage.content("web/book").entries == 0


# ---- on a disk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "srv").mkdir()
    return tmp_path / "srv"


@pytest.fixture
def disk(root: Path) -> Any:
    storage = OpenStorage(DirectoryStorage(str(root), "w1"), str(root))
    storage.volume("web", "book")
    return storage


def test_modes_times_links_and_owners_are_those_of_the_image_n13(disk: Any, root: Path) -> None:
    """What is outside is a file of the test: where links are followed by mistake, it is given away."""
    outside = root.parent / "outside"
    outside.write_text("mine")
    entries = (
        ("data", D, 0o2750, b""),
        ("data/program", F, 0o6755, b"#!"),
        ("data/inner", D, 0o1777, b""),
        ("data/inner/file", F, 0o600, b"123"),
        ("data/other", HARD, 0o600, "data/inner/file"),
        ("data/away", SYM, 0o777, str(outside)),
        ("data/pipe", tarfile.FIFOTYPE, 0o640, b""),
        ("data/disk", tarfile.BLKTYPE, 0o660, b""),
        ("data/disk-2", HARD, 0o660, "data/disk"),
    )
    assert disk.fill("web", "book", archive(*entries))
    book = root / "web" / "book"
    about = {path.name: path.lstat() for path in (book, *book.rglob("*"))}
    modes = {name: stat.S_IMODE(one.st_mode) for name, one in about.items() if not stat.S_ISLNK(one.st_mode)}
    assert modes == {"book": 0o2750, "program": 0o755, "inner": 0o1777, "file": 0o600, "other": 0o600, "pipe": 0o640}
    assert {(one.st_uid, one.st_gid) for one in about.values()} == {(1000, 1001)}
    assert {int(about[name].st_mtime) for name in ("program", "file")} == {1_700_000_000}
    assert about["file"].st_ino == about["other"].st_ino and os.readlink(book / "away") == str(outside)
    assert stat.S_ISFIFO(about["pipe"].st_mode)
    disk.own("web", "book", "7:8")
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in (book, *book.rglob("*"))} == {(7, 8)}
    assert outside.stat().st_uid == 0


@pytest.mark.parametrize(
    "hostile",
    [
        (("data/away", SYM, 0o777, "/TARGET"), ("data/away/file", F, 0o644, b"out")),
        (("data/../../file", F, 0o644, b"out"),),
        (("data/twice", F, 0o644, b"long"), ("data/twice", F, 0o644, b"x")),
        (("data/away", SYM, 0o777, "/TARGET"), ("data/file", HARD, 0o644, "data/away/secret")),
    ],
)
def test_an_image_reaches_nothing_outside_its_volume_n13(disk: Any, root: Path, tmp_path: Path, hostile: Any) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "secret").write_text("secret")
    entries = [
        (path, kind, mode, str(target) if content == "/TARGET" else content) for path, kind, mode, content in hostile
    ]
    with pytest.raises(HoldfastError):
        disk.fill("web", "book", archive(("data", D, 0o755, b""), *entries))
    assert os.listdir(target) == ["secret"] and os.listdir(root) == ["web"]
    assert os.listdir(root / "web" / "book") == [] and os.listdir(root / "web") == ["book"]


def _named(name: str) -> ImageDirectory:
    """The name is in a pax header, which holds any text."""
    member, target = tarfile.TarInfo("data/x"), io.BytesIO()
    member.pax_headers = {"path": name}
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as made:
        top = tarfile.TarInfo("data")
        top.type = D
        made.addfile(top)
        made.addfile(member)
    target.seek(0)
    return ImageDirectory("data", target)


@pytest.mark.parametrize(
    "image",
    [
        ImageDirectory("data", io.BytesIO(b"no tar at all" * 100)),
        ImageDirectory("data", io.BytesIO(b"")),
        archive(("data", F, 0o644, b"a file")),
        archive(("other", D, 0o755, b"")),
        archive(("data", D, 0o755, b""), ("data/outside", HARD, 0o644, "bin/sh")),
        archive(("data", D, 0o755, b""), ("data/self", HARD, 0o644, "data")),
        _named("data/\0"),
        ImageDirectory("data", io.BytesIO(archive(*SEEDED).tar.read()[:1900])),  # it ends inside
    ],
    ids=[
        "no tar",
        "nothing",
        "a file",
        "not there",
        "a link to a file outside",
        "a link to a directory",
        "no name",
        "cut off",
    ],
)
def test_an_image_that_cannot_be_read_fills_nothing(disk: Any, root: Path, image: ImageDirectory) -> None:
    with pytest.raises(Failed) as failed:
        disk.fill("web", "book", image)
    assert failed.value.code == "image_unreadable" and disk.content("web/book").entries == 0
    assert os.listdir(root / "web") == ["book"]


class Pipe(io.BytesIO):
    """Gives less than was asked for."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 700))


def test_a_link_that_comes_before_its_directory_is_one_too(disk: Any, root: Path) -> None:
    entries = (("data/seed", F, 0o644, b"seed"), ("data/other", HARD, 0o644, "data/seed"), ("data", D, 0o750, b""))
    assert disk.fill("web", "book", archive(*entries))
    assert sorted(os.listdir(root / "web" / "book")) == ["other", "seed"]


def test_an_image_in_small_pieces_with_other_forms_of_its_paths_is_read(disk: Any, root: Path) -> None:
    image = archive(("./data", D, 0o755, b""), ("./data//./seed", F, 0o644, b"seed"))
    assert disk.fill("web", "book", ImageDirectory("/data/", Pipe(image.tar.read())))
    assert (root / "web" / "book" / "seed").read_bytes() == b"seed"


def test_more_than_the_disk_can_take_is_refused_before_it_is_written_n13(
    disk: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "room_bytes", lambda handle: 3)
    with pytest.raises(Failed) as failed:
        disk.fill("web", "book", archive(*SEEDED))
    assert failed.value.code == "no_space" and os.listdir(root / "web") == ["book"]
    monkeypatch.setattr(blocks, "room_bytes", lambda handle: 4)
    monkeypatch.setattr(filling, "ENTRIES_MAX", 1)
    with pytest.raises(Failed, match="does not fit"):
        disk.fill("web", "book", archive(*SEEDED))
    monkeypatch.setattr(filling, "ENTRIES_MAX", 2)
    monkeypatch.setattr(os, "fstatvfs", lambda handle: SimpleNamespace(f_favail=3))
    with pytest.raises(Failed, match="does not fit"):
        disk.fill("web", "book", archive(*SEEDED))
    for volume, free in (("book", 4), ("other", 0)):  # 0: of a file system that does not count them
        monkeypatch.setattr(os, "fstatvfs", lambda handle, free=free: SimpleNamespace(f_favail=free))
        disk.volume("web", volume)
        assert disk.fill("web", volume, archive(*SEEDED))


STEPS = ("mkdir", "open", "fchown", "fchmod", "rename", "fsync")


def test_killed_at_any_step_it_is_empty_or_whole_and_the_next_attempt_makes_it_whole_n13(tmp_path: Path) -> None:
    """A real process, killed at its n-th call of the disk, for growing n until it is not hit."""
    seen = set()
    for n in range(1, 200):
        root = tmp_path / str(n)
        root.mkdir()
        storage = OpenStorage(DirectoryStorage(str(root), "w1"), str(root))
        storage.volume("web", "book")
        child = os.fork()
        if child == 0:
            _fill_and_die(storage, n)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        book = root / "web" / "book"
        found = sorted(path.name for path in book.iterdir())
        assert found in ([], ["inner", "seed"]), f"killed at call {n}"
        if found:
            assert (book / "inner" / "x").read_bytes() == b"x" * 9000 and book.stat().st_uid == 1000
        seen.add(tuple(found))
        again = storage.fill("web", "book", _larger())
        assert again != bool(found)
        assert (book / "inner" / "x").read_bytes() == b"x" * 9000 and book.stat().st_mode & 0o777 == 0o750
        assert os.listdir(root / "web") == ["book"]
        if code == 0:
            break
    assert n > 20 and seen == {(), ("inner", "seed")}


def _larger() -> ImageDirectory:
    return archive(*SEEDED, ("data/inner", D, 0o755, b""), ("data/inner/x", F, 0o644, b"x" * 9000))


def _fill_and_die(storage: Any, n: int) -> None:
    left = [n]

    def counting(real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return real(*args, **named)

        return call

    for name in STEPS:
        setattr(os, name, counting(getattr(os, name)))
    try:
        storage.fill("web", "book", _larger())
    except BaseException:
        os._exit(3)
    os._exit(0)


def test_what_a_crash_left_of_another_volume_stays_until_that_one_is_filled(disk: Any, root: Path) -> None:
    left = root / "web" / ".filling" / "other"
    left.mkdir(parents=True)
    (left / "half").write_text("half")
    assert disk.fill("web", "book", archive(*SEEDED)) and (left / "half").exists()
    disk.volume("web", "other")
    assert disk.fill("web", "other", archive(*SEEDED))
    assert sorted(os.listdir(root / "web")) == ["book", "other"] and os.listdir(root / "web" / "other") == ["seed"]


@pytest.mark.parametrize("how", ["-t tmpfs none", "--bind {other}"])
def test_a_service_on_a_disk_of_its_own_has_its_volumes_filled_too_n13(disk: Any, root: Path, how: str) -> None:
    """A rename does not cross a mount, also not one of the same file system."""
    other = root.parent / "other"
    other.mkdir()
    in_mount(
        f"mount {how.format(other=other)} {root}/web",
        f'storage = OpenStorage(DirectoryStorage("{root}", "w1"), "{root}"); storage.volume("web", "book")\n'
        'assert storage.fill("web", "book", archive(*SEEDED)) and storage.content("web/book").owner == "1000:1001"',
    )


def in_mount(mount: str, story: str) -> None:
    """In a mount namespace of its own."""
    script = f"{mount} && exec {sys.executable} -c 'from tests.contracts.test_filling import *\n{story}'"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_owner_is_not_given_what_is_mounted_inside_a_volume(disk: Any, root: Path) -> None:
    """A bind mount of the same file system looks like any directory, and is another one's data. The volume itself may
    be a disk of its own."""
    precious = root.parent / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    (root / "web" / "book" / "inner").mkdir()
    story = f'storage = OpenStorage(DirectoryStorage("{root}", "w1"), "{root}")\n'
    in_mount(
        f"mount --bind {precious} {root}/web/book/inner",
        story + 'with pytest.raises(NotPermitted, match="is a mount point"): storage.own("web", "book", "7:8")',
    )
    assert (precious / "file").stat().st_uid == 0
    in_mount(f"mount --bind {precious} {root}/web/book", story + 'storage.own("web", "book", "7:8")')
    assert (precious / "file").stat().st_uid == 7


def test_an_image_of_many_files_takes_no_memory(disk: Any) -> None:
    """All of them pass, because an export is of the whole image."""
    files = [(f"usr/lib/{number}", F, 0o644, b"") for number in range(10_000)]
    directories = [(f"data/{number}", D, 0o755, b"") for number in range(2_000)]
    image = archive(*files, ("data", D, 0o755, b""), *directories)
    tracemalloc.start()
    try:
        assert disk.fill("web", "book", image)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_what_is_put_in_place_is_on_the_disk_before_and_so_is_its_name_n13(
    disk: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    rename, fsync = os.rename, os.fsync

    def renamed(*given: Any, **named: Any) -> None:
        done.append("rename")
        rename(*given, **named)

    def flushed(handle: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(blocks, "flush_all", lambda handle: done.append("all"))
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "fsync", flushed)
    disk.fill("web", "book", archive(*SEEDED))
    at = done.index("rename")
    assert done[at - 1 : at + 3] == ["all", "rename", str(root / "web"), str(root / "web" / ".filling")]
    done.clear()
    disk.own("web", "book", "7:8")
    assert done == ["all"]


def test_a_full_disk_is_said_with_a_remedy(disk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(blocks, "flush_all", full)
    with pytest.raises(Failed, match="does not fit") as failed:
        disk.fill("web", "book", archive(*SEEDED))
    assert failed.value.remedy.startswith("free space") and disk.content("web/book").entries == 0


def test_another_trouble_of_the_disk_is_said_as_it_is(disk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **named: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", broken)
        with pytest.raises(Failed, match="Input/output error"):
            disk.fill("web", "book", archive(*SEEDED))
    monkeypatch.setattr(tree, "empty_out", broken)  # the half copy stays: the next attempt drops it
    with pytest.raises(Failed, match="outside of it"):
        disk.fill("web", "book", archive(("data", D, 0o755, b""), ("data/outside", HARD, 0o644, "bin/sh")))


def test_what_vanishes_while_it_is_given_to_an_owner_does_not_end_that(
    disk: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.fill("web", "book", archive(*SEEDED))
    walk = tree.walk

    def removing(top: int) -> Iterator[tree.Visit]:
        for visit in walk(top):
            (root / "web" / "book" / "seed").unlink(missing_ok=True)
            yield visit

    monkeypatch.setattr(tree, "walk", removing)
    disk.own("web", "book", "7:8")
    assert disk.content("web/book").owner == "7:8"


def test_no_handle_stays_open(disk: Any) -> None:
    damaged = archive(*SEEDED, ("data/a", D, 0o755, b""), ("data/a/outside", HARD, 0o644, "bin/sh"))
    linked = (*SEEDED, ("data/a", D, 0o755, b""), ("data/a/b", D, 0o755, b""), ("data/a/b/c", HARD, 0o644, "data/seed"))
    with none_left_open():
        with pytest.raises(Failed):
            disk.fill("web", "book", damaged)
        assert disk.fill("web", "book", archive(*linked, ("data/pipe", tarfile.FIFOTYPE, 0o644, b"")))
        disk.own("web", "book", "7:8")


def test_a_name_that_leads_elsewhere_is_not_filled(disk: Any, root: Path) -> None:
    (root / "other").mkdir()
    for service, name in (("web", "../other"), ("../srv/web", "book")):
        with pytest.raises(Invalid):
            disk.fill(service, name, archive(*SEEDED))
        with pytest.raises(Invalid):
            disk.own(service, name, "7:8")
    assert os.listdir(root / "other") == [] and (root / "other").stat().st_uid == 0


def test_a_program_that_makes_and_removes_files_meanwhile_does_not_end_a_count(
    disk: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep a node from reporting its data, and a service from its deployment."""
    book, listed, opened = root / "web" / "book", os.scandir, tree.opened
    (book / "file").write_text("1")
    (book / "directory").mkdir()

    @contextmanager
    def removed(handle: int) -> Iterator[list[Any]]:
        with listed(handle) as found:
            entries = list(found)
        (book / "file").unlink(missing_ok=True)
        yield entries

    def replaced(name: str, above: int) -> int:
        if name == "directory":
            (book / name).rmdir()
            (book / name).symlink_to(root)
        return opened(name, above)

    monkeypatch.setattr(os, "scandir", removed)
    monkeypatch.setattr(tree, "opened", replaced)
    handle = os.open(book, os.O_RDONLY)
    try:
        assert tree.count_entries(handle).entries == 2, "it was not empty"
    finally:
        os.close(handle)
