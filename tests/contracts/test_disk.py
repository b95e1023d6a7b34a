"""Every disk keeps the old content or the new one, and says so when it cannot do what was asked (R02, R05, R06)."""

import os
import resource
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.errors import Failed, HoldfastError, Invalid
from holdfast.ports.disk import Disk

OLD, NEW = b"old" * 1000, b"new" * 5000
SOURCE = str(Path(__file__).parents[2] / "src")


@pytest.fixture(params=["memory", "posix"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "posix":
        return PosixDisk()
    disk = MemoryDisk()
    disk.make_directory(str(tmp_path))
    return disk


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "pin.json")


def refusal(code: str, kind: type[HoldfastError], call: "pytest.ExceptionInfo[HoldfastError]") -> None:
    assert (call.value.code, type(call.value)) == (code, kind)
    assert call.value.remedy


# ---- every disk -----------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_back(disk: Disk, path: str) -> None:
    for content in (OLD, NEW, b""):
        disk.replace(path, content)
        assert disk.read(path, 100_000) == content


def test_a_file_that_is_not_there_reads_as_none(disk: Disk, path: str) -> None:
    assert disk.read(path, 10) is None
    assert disk.read(path + "/below", 10) is None
    disk.replace(path, OLD)
    assert disk.read(path + "/below", 10) is None


def test_a_removed_file_is_gone_and_a_missing_one_is_no_error_n36(disk: Disk, path: str) -> None:
    disk.replace(path, OLD)
    for _ in range(2):
        disk.remove(path)
        assert disk.read(path, 10_000) is None
    with pytest.raises(Invalid) as call:
        disk.remove(os.path.dirname(path))
    refusal("not_a_file", Invalid, call)


def test_a_file_of_exactly_the_allowed_length_is_read_and_a_longer_one_is_refused(disk: Disk, path: str) -> None:
    disk.replace(path, b"12345")
    assert disk.read(path, 5) == b"12345"
    with pytest.raises(Invalid) as call:
        disk.read(path, 4)
    refusal("file_too_long", Invalid, call)


def test_a_directory_is_made_with_all_above_it_and_making_it_twice_is_the_same_as_once(disk: Disk, path: str) -> None:
    for _ in range(2):
        disk.make_directory(path + "/a/b/")
    disk.replace(path + "/a/b/file", OLD)
    disk.replace(path + "/a/file", OLD)
    disk.make_directory(path + "/a")
    assert disk.read(path + "/a/b/file", 10_000) == OLD


def test_a_directory_that_was_never_made_takes_no_file(disk: Disk, path: str) -> None:
    with pytest.raises(Failed) as call:
        disk.replace(path + "/a/file", OLD)
    refusal("disk_failed", Failed, call)


def test_a_directory_is_neither_read_nor_replaced_as_a_file(disk: Disk, path: str) -> None:
    disk.make_directory(path)
    with pytest.raises(Invalid) as call:
        disk.read(path, 10)
    refusal("not_a_file", Invalid, call)
    with pytest.raises(Invalid) as call:
        disk.replace(path, OLD)
    refusal("not_a_file", Invalid, call)


def test_a_file_is_never_made_a_directory(disk: Disk, path: str) -> None:
    disk.replace(path, OLD)
    with pytest.raises(Failed) as call:
        disk.make_directory(path)
    refusal("disk_failed", Failed, call)
    assert disk.read(path, 10_000) == OLD


@pytest.mark.parametrize("name", ["", "dir/", "nul\0byte"])
def test_what_cannot_be_the_path_of_a_file_is_refused(disk: Disk, name: str) -> None:
    with pytest.raises(Invalid):
        disk.read(name, 10)
    with pytest.raises(Invalid):
        disk.replace(name, OLD)


FILES = {"services/web.toml": b"web", "services/deep/er.toml": OLD, "fleet.toml": NEW}


def test_a_tree_has_all_its_files_n36(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(str(tmp_path / "empty"))
    for name in ("new", "above/new", "empty"):
        disk.make_tree(str(tmp_path / name), FILES)
        assert {path: disk.read(str(tmp_path / name / path), 100_000) for path in FILES} == FILES


def test_a_tree_takes_no_place_that_has_something_n36(disk: Disk, tmp_path: Path) -> None:
    disk.make_tree(str(tmp_path / "one"), FILES)
    for name in ("one", "one/fleet.toml"):
        with pytest.raises(Failed):
            disk.make_tree(str(tmp_path / name), {"fleet.toml": OLD, "more": OLD})
    assert disk.read(str(tmp_path / "one/fleet.toml"), 100_000) == NEW
    assert disk.read(str(tmp_path / "one/more"), 100_000) is None


def test_a_tree_that_does_not_fit_leaves_nothing_in_memory_n36(tmp_path: Path) -> None:
    disk = MemoryDisk(space_bytes=len(NEW))
    before = dict(disk.modes)
    with pytest.raises(Failed):
        disk.make_tree(str(tmp_path / "new"), FILES)
    assert (disk.files, disk.modes) == ({}, before)


def test_a_full_memory_disk_keeps_the_old_content_and_works_again_once_there_is_space(path: str) -> None:
    disk = MemoryDisk({path: OLD}, space_bytes=10_000)
    with pytest.raises(Failed) as call:
        disk.replace(path, NEW)
    refusal("no_space", Failed, call)
    assert disk.read(path, 10_000) == OLD
    disk.space_bytes = 20_000
    disk.replace(path, NEW)
    assert disk.read(path, 20_000) == NEW


# ---- a real file system ---------------------------------------------------------------------------------------------


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_has_the_mode_that_was_asked_for_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    for content in (OLD, NEW):
        PosixDisk().replace(str(path), content, mode)
        assert path.stat().st_mode & 0o7777 == mode


@pytest.mark.usefixtures("umask")
def test_new_directories_have_the_mode_that_was_asked_for_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    PosixDisk().make_directory(str(tmp_path / "a" / "b"), 0o750)
    modes = [place.stat().st_mode & 0o7777 for place in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")]
    assert modes == [0o711, 0o750, 0o750]


def test_a_name_as_long_as_the_file_system_allows_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    PosixDisk().replace(str(path), NEW)
    assert path.read_bytes() == NEW


def test_a_relative_path_is_meant_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PosixDisk().replace("file", NEW)
    PosixDisk().make_directory("room")
    assert (tmp_path / "file").read_bytes() == NEW
    assert (tmp_path / "room").is_dir()


# Never the machine's own /dev/null: on the day this test is red, it would be gone.
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "socket", "device"])
def test_links_pipes_sockets_and_devices_are_neither_read_nor_replaced(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    with socket.socket(socket.AF_UNIX) as listening:
        if kind in ("link", "dangling"):
            path.symlink_to(other)
            if kind == "link":
                other.write_bytes(OLD)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            listening.bind(str(path))
        else:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        before = path.lstat()
        with pytest.raises(Invalid) as call:
            PosixDisk().read(str(path), 10_000)
        refusal("not_a_file", Invalid, call)
        with pytest.raises(Invalid) as call:
            PosixDisk().replace(str(path), NEW)
        refusal("not_a_file", Invalid, call)
        assert path.lstat().st_ino == before.st_ino
    assert not other.exists() or other.read_bytes() == OLD


def test_a_link_on_the_way_is_the_operators_choice_and_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    PosixDisk().replace(str(tmp_path / "link" / "file"), NEW)
    assert (tmp_path / "real" / "file").read_bytes() == NEW


def test_a_write_that_fails_half_way_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    PosixDisk().replace(str(path), OLD)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(NEW) // 2, limits[1]))  # the second write of the loop is refused
    try:
        with pytest.raises(Failed) as call:
            PosixDisk().replace(str(path), NEW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    refusal("disk_failed", Failed, call)
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["file"]


# ---- a machine that fails -------------------------------------------------------------------------------------------

REPLACE = """
import sys
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.errors import HoldfastError
try:
    PosixDisk().replace(sys.argv[1], b"new" * 5000)
except HoldfastError as trouble:
    print(trouble.code, "|", trouble.message, "|", trouble.remedy)
else:
    print("done")
"""


def replaced_under(injection: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Buffered output is written once, at the end: writes before that are those of the disk."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={injection}"]
    return subprocess.run(
        [*strace, sys.executable, "-B", "-c", REPLACE, str(path)],
        env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )


def strays(path: Path) -> list[str]:
    return [name for name in os.listdir(path.parent) if name != path.name]


@pytest.mark.lab
@pytest.mark.parametrize("call", ["write", "fchmod", "fsync", "rename,renameat,renameat2", "unlink,unlinkat"])
def test_killed_at_any_call_the_disk_holds_old_or_new_and_at_most_one_stray(tmp_path: Path, call: str) -> None:
    hit, seen = 0, set()
    for n in range(1, 20):
        path = tmp_path / str(n) / "file"
        path.parent.mkdir()
        PosixDisk().replace(str(path), OLD)
        run = replaced_under(f"{call}:signal=SIGKILL:when={n}", path)
        content = path.read_bytes()
        assert content in (OLD, NEW)
        assert len(strays(path)) <= (0 if content == NEW else 1)
        seen.add(content)
        PosixDisk().replace(str(path), NEW)  # whatever was left behind is in nobody's way
        assert path.read_bytes() == NEW
        if run.stdout == "done\n":
            break
        hit += 1
    else:
        pytest.fail("no run came through")
    assert hit >= (0 if call.startswith("unlink") else 1)
    assert NEW in seen


@pytest.mark.lab
@pytest.mark.parametrize(
    ("injection", "code", "kept"),
    [
        ("write:error=ENOSPC:when=1", "no_space", OLD),
        ("write:error=EDQUOT:when=1", "no_space", OLD),
        ("write:error=EIO:when=1", "disk_failed", OLD),
        ("fsync:error=EIO:when=1", "disk_failed", OLD),
        ("fsync:error=ENOSPC:when=1", "no_space", OLD),
        ("fsync:error=EIO:when=2", "disk_failed", NEW),  # the directory's: too late for the old content, so it says so
        ("fsync:error=ENOSPC:when=2", "disk_failed", NEW),
        ("fchmod:error=EPERM:when=1", "disk_failed", OLD),
        ("rename,renameat,renameat2:error=EROFS", "disk_failed", OLD),
        ("rename,renameat,renameat2:error=EACCES", "disk_failed", OLD),
    ],
)
def test_a_failing_call_is_reported_and_leaves_nothing_beside_the_old_content(
    tmp_path: Path, injection: str, code: str, kept: bytes
) -> None:
    path = tmp_path / "file"
    PosixDisk().replace(str(path), OLD)
    said = replaced_under(injection, path).stdout
    assert said.split(" | ")[0] == code, said
    assert ("power cut" in said) == (kept == NEW)
    assert path.read_bytes() == kept
    assert strays(path) == []


def test_what_a_killed_process_left_is_swept_later_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    names = {".holdfast-old.tmp": 7200, ".holdfast-new.tmp": 0, ".other.tmp": 7200, ".holdfast-kept": 7200}
    for name, age_s in names.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    PosixDisk().replace(str(path), NEW)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".holdfast-kept", ".holdfast-new.tmp", ".other.tmp", "file"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True, timeout=60)
    yield place
    subprocess.run(["umount", place], check=True, timeout=60)


@pytest.mark.lab
def test_a_full_file_system_keeps_the_old_content_and_works_again_once_there_is_space(small_disk: Path) -> None:
    path, filler = small_disk / "file", small_disk / "filler"
    PosixDisk().replace(str(path), OLD)
    filler.write_bytes(bytes(48 * 1024))
    for _ in range(3):
        with pytest.raises(Failed) as call:
            PosixDisk().replace(str(path), NEW)
        refusal("no_space", Failed, call)
        assert path.read_bytes() == OLD
        assert strays(path) == ["filler"]
    filler.unlink()
    PosixDisk().replace(str(path), NEW)
    assert path.read_bytes() == NEW


@pytest.mark.lab
def test_a_file_system_mounted_read_only_is_named_as_such(small_disk: Path) -> None:
    path = small_disk / "file"
    PosixDisk().replace(str(path), OLD)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True, timeout=60)
    with pytest.raises(Failed) as call:
        PosixDisk().replace(str(path), NEW)
    refusal("disk_failed", Failed, call)
    assert "mount" in call.value.remedy
    assert PosixDisk().read(str(path), 10_000) == OLD


def here(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


@pytest.mark.usefixtures("umask")
def test_a_tree_has_the_modes_that_were_asked_for_whatever_the_umask_n36(tmp_path: Path) -> None:
    PosixDisk().make_tree(str(tmp_path / "new"), FILES, 0o755, 0o644)
    assert stat.S_IMODE((tmp_path / "new/services").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "new/fleet.toml").stat().st_mode) == 0o644


def test_a_tree_in_an_empty_directory_keeps_that_directory_n36(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a mount point, or the working directory."""
    monkeypatch.chdir(tmp_path)
    before = os.stat(".").st_ino
    PosixDisk().make_tree(".", FILES)
    assert os.stat(".").st_ino == os.stat(tmp_path).st_ino == before and here(tmp_path) == FILES


@pytest.mark.lab
@pytest.mark.parametrize("name", ["new", "above/two/new", "empty"])
def test_a_tree_that_a_full_file_system_does_not_take_leaves_nothing_n36(small_disk: Path, name: str) -> None:
    (small_disk / "empty").mkdir()
    with pytest.raises(Failed) as full:
        PosixDisk().make_tree(str(small_disk / name), {**FILES, "z/large": os.urandom(4 * 1024 * 1024)})
    assert full.value.code == "no_space" and "no space is left" in full.value.message
    assert sorted(one.name for one in small_disk.rglob("*")) == ["empty"]
    PosixDisk().make_tree(str(small_disk / name), FILES)
    assert here(small_disk / name) == FILES


TREE = """
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.adapters.disk.posix import PosixDisk
PosixDisk().make_tree(sys.argv[2], {"services/web.toml": b"web", "fleet.toml": b"fleet"})
"""


def tree_under(call: str, fault: str, path: Path) -> int:
    """The exit code of a process that makes a tree."""
    words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]
    done = subprocess.run([*words, sys.executable, "-c", TREE, SOURCE, str(path)], capture_output=True, timeout=120)
    return done.returncode


TREE_CALLS = [*product(["write", "fsync", "rename,renameat,renameat2", "mkdir"], ["new", "empty"]), ("rmdir", "empty")]


REMOVE = """
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.adapters.disk.posix import PosixDisk
PosixDisk().remove(sys.argv[2])
"""


@pytest.mark.lab
def test_a_removal_that_may_not_last_is_reported_n36(tmp_path: Path) -> None:
    """The name is gone, and a power cut may bring it back."""
    (tmp_path / "file").write_bytes(OLD)
    words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", sys.executable, "-c", REMOVE]
    done = subprocess.run([*words, SOURCE, str(tmp_path / "file")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "cannot remove" in done.stderr


@pytest.mark.lab
@pytest.mark.parametrize(("call", "name"), TREE_CALLS)
def test_a_tree_of_which_a_call_fails_leaves_nothing_n36(tmp_path: Path, call: str, name: str) -> None:
    for number in range(1, 40):
        place = tmp_path / str(number)
        (place / "empty").mkdir(parents=True)
        if tree_under(call, f"error=EIO:when={number}", place / name) == 0:
            assert here(place / name).keys() == {"services/web.toml", "fleet.toml"} and number > 1
            return
        is_flushed_last = call == "fsync" and (place / name / "fleet.toml").exists()  # too late to undo
        assert is_flushed_last or [one.name for one in place.rglob("*")] == ["empty"], number
    raise AssertionError("it never ended by itself")


@pytest.mark.lab
@pytest.mark.parametrize(("call", "name"), TREE_CALLS)
def test_killed_at_any_call_a_tree_is_whole_or_has_no_file_that_is_half_n36(
    tmp_path: Path, call: str, name: str
) -> None:
    """In a directory that is there already its parts come one by one, fleet.toml last."""
    whole = {"services/web.toml": b"web", "fleet.toml": b"fleet"}
    for number in range(1, 40):
        place = tmp_path / str(number)
        (place / "empty").mkdir(parents=True)
        code, target = tree_under(call, f"signal=SIGKILL:when={number}", place / name), place / name
        seen = {path: text for path, text in (here(target) if target.exists() else {}).items() if path[0] != "."}
        if code == 0:
            assert seen == whole and number > 1
            return
        allowed: list[dict[str, bytes]] = [{}, whole]
        if name == "empty":
            allowed.append({"services/web.toml": b"web"})
        assert seen in allowed, (number, seen)
    raise AssertionError("it never ended by itself")
