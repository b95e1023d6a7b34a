"""What every fleet directory promises, on disk and in memory: bounded, inside, never a link (I-37, S11, M-124)."""

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.adapters.fleet_directory.memory import Content, MemoryFleetDirectory
from holdfast.adapters.fleet_directory.posix import PosixFleetDirectory
from holdfast.errors import Invalid
from holdfast.ports.fleet_directory import ENTRIES_MAX, Entry, FleetDirectory, Unreadable
from tests.fleets.handles import none_left_open

Make = Callable[[Mapping[str, Content]], FleetDirectory]


def write(root: Path, files: Mapping[str, Content]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "directory":
            path.mkdir()
        elif content == "symlink":
            path.symlink_to("/etc/hostname")
        else:
            os.mkfifo(path)


@pytest.fixture(params=["posix", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as open_directories:

        def build(files: Mapping[str, Content]) -> FleetDirectory:
            if request.param == "memory":
                return MemoryFleetDirectory(files, str(tmp_path))
            write(tmp_path, files)
            return open_directories.enter_context(PosixFleetDirectory(str(tmp_path)))

        yield build


def test_it_keeps_the_name_it_was_given(make: Make, tmp_path: Path) -> None:
    assert make({}).name == str(tmp_path)


def test_it_lists_what_is_there_sorted_by_path_with_kinds_and_sizes(make: Make) -> None:
    directory = make(
        {"fleet.toml": b"12", "b": "other", "a": "symlink", "services/web.toml": b"1", "services/x.toml": "directory"}
    )
    assert directory.entries() == (
        Entry("a", "symlink"),
        Entry("b", "other"),
        Entry("fleet.toml", "file", 2),
        Entry("services", "directory"),
    )
    assert directory.entries("services") == (
        Entry("services/web.toml", "file", 1),
        Entry("services/x.toml", "directory"),
    )


def test_an_empty_directory_has_no_entries(make: Make) -> None:
    assert make({}).entries() == ()
    assert make({"services": "directory"}).entries("services") == ()


def test_it_reads_a_file_whole_and_again(make: Make) -> None:
    directory = make({"services/web.toml": b"abc", "empty": b""})
    assert directory.read("services/web.toml", 3) == b"abc"
    assert directory.read("services/web.toml", 3) == b"abc"
    assert directory.entries("services") == directory.entries("services")
    assert directory.read("empty", 0) == b""


def test_a_file_longer_than_allowed_is_refused(make: Make) -> None:
    with pytest.raises(Unreadable) as caught:
        make({"fleet.toml": b"abcd"}).read("fleet.toml", 3)
    assert caught.value.what == "is 4 bytes long; the limit is 3 bytes"
    assert (caught.value.path, caught.value.code, caught.value.exit_code) == ("fleet.toml", "unreadable_file", 2)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("symlink", "is a symbolic link; Holdfast follows no links"),
        ("other", "is not a plain file"),
        ("directory", "is a directory where a file is expected"),
    ],
)
def test_what_is_not_a_file_is_refused_by_name_with_a_remedy_s11(make: Make, content: Content, what: str) -> None:
    directory = make({"services/x.toml": content})
    with pytest.raises(Unreadable) as caught:
        directory.read("services/x.toml", 10)
    assert caught.value.what.startswith(what)
    assert caught.value.remedy


def test_what_does_not_exist_is_unreadable_i37(make: Make) -> None:
    directory = make({"fleet.toml": b""})
    with pytest.raises(Unreadable, match="does not exist"):
        directory.read("services/web.toml", 10)
    with pytest.raises(Unreadable, match="does not exist"):
        directory.entries("services")


@pytest.mark.parametrize("content", ["symlink", "other", b""])
def test_what_is_not_a_directory_cannot_be_listed_s11(make: Make, content: Content) -> None:
    directory = make({"services": content})
    with pytest.raises(Unreadable, match="is not a directory, or is a symbolic link to one"):
        directory.entries("services")


@pytest.mark.parametrize(
    "path", ["../x", "services/../fleet.toml", "..", ".", "", "/etc/passwd", "services/.", "services//web.toml", "a\0b"]
)
def test_no_path_leads_outside_s11(make: Make, path: str) -> None:
    directory = make({"services/web.toml": b"", "fleet.toml": b""})
    with pytest.raises(Unreadable):
        directory.read(path, 10)


# ---- only on disk ---------------------------------------------------------------------------------------------------


def test_the_root_may_be_a_link_that_the_operator_typed(tmp_path: Path) -> None:
    write(tmp_path, {"real/fleet.toml": b"x"})
    (tmp_path / "link").symlink_to("real")
    with PosixFleetDirectory(str(tmp_path / "link")) as directory:
        assert directory.read("fleet.toml", 1) == b"x"


def test_a_directory_that_does_not_exist_is_answered_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        PosixFleetDirectory(str(tmp_path / "my fleet"))
    assert caught.value.code == "fleet_missing"
    assert caught.value.remedy == (
        f"check the path (--fleet DIR); to create a new fleet there: holdfast init '{tmp_path}/my fleet'"
    )


def test_a_directory_link_is_not_followed_even_to_a_real_directory_s11(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.toml").write_bytes(b"leaked")
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "services").symlink_to(tmp_path / "outside", target_is_directory=True)
    with PosixFleetDirectory(str(tmp_path / "fleet")) as directory:
        for look in (lambda: directory.entries("services"), lambda: directory.read("services/secret.toml", 100)):
            with pytest.raises(Unreadable, match="not a directory, or is a symbolic link"):
                look()


def test_a_file_in_place_of_the_directory_is_no_fleet(tmp_path: Path) -> None:
    write(tmp_path, {"file": b""})
    with pytest.raises(Invalid) as caught:
        PosixFleetDirectory(str(tmp_path / "file"))
    assert (caught.value.code, "--fleet DIR" in caught.value.remedy) == ("fleet_missing", True)


def test_a_socket_is_refused_s11(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{handle}/x.toml")
    os.close(handle)
    with PosixFleetDirectory(str(tmp_path)) as directory, pytest.raises(Unreadable, match="not a plain file"):
        directory.read("x.toml", 10)
    assert PosixFleetDirectory(str(tmp_path)).entries() == (Entry("x.toml", "other"),)


@pytest.mark.parametrize("change", [b"longer", b""])
def test_a_file_that_changes_while_it_is_read_is_refused_and_stays_bounded_i37(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    write(tmp_path, {"x.toml": b"abc"})
    asked: list[int] = []

    def read(handle: int, size: int, real: Callable[[int, int], bytes] = os.read) -> bytes:
        (tmp_path / "x.toml").write_bytes(change * 1000)
        asked.append(size)
        return real(handle, size)

    monkeypatch.setattr(os, "read", read)
    with PosixFleetDirectory(str(tmp_path)) as directory, pytest.raises(Unreadable, match="changed while"):
        directory.read("x.toml", 100_000)
    assert sum(asked) <= 8


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE, errno.ESTALE])
def test_any_trouble_of_the_disk_is_reported_never_skipped_i37(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write(tmp_path, {"x.toml": b"abc"})

    def read(handle: int, size: int) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "read", read)
    with PosixFleetDirectory(str(tmp_path)) as directory, pytest.raises(Unreadable) as caught:
        directory.read("x.toml", 10)
    assert caught.value.remedy


def test_a_renamed_root_is_still_the_directory_that_was_opened(tmp_path: Path) -> None:
    write(tmp_path, {"f/services/web.toml": b"mine"})
    with PosixFleetDirectory(str(tmp_path / "f")) as directory:
        (tmp_path / "f").rename(tmp_path / "g")
        write(tmp_path, {"f/services/web.toml": b"other"})
        assert directory.read("services/web.toml", 10) == b"mine"


def test_closing_gives_every_handle_back(tmp_path: Path) -> None:
    write(tmp_path, {"services/web.toml": b"", "policies/a.cedar": b"", "x.toml": "symlink"})
    with none_left_open(), PosixFleetDirectory(str(tmp_path)) as directory:
        directory.entries("services")
        directory.read("policies/a.cedar", 1)
        with pytest.raises(Unreadable):
            directory.read("x.toml", 1)


def test_file_names_are_whatever_bytes_they_are(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff\n.toml")).write_bytes(b"x")
    with PosixFleetDirectory(str(tmp_path)) as directory:
        (entry,) = directory.entries()
        assert directory.read(entry.path, 1) == b"x"


def test_a_directory_with_too_many_entries_is_not_listed_s11() -> None:
    files = {f"services/{number}": b"" for number in range(ENTRIES_MAX + 1)}
    with pytest.raises(Unreadable, match="holds more than 50,000 entries"):
        MemoryFleetDirectory(files).entries("services")
