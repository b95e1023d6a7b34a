"""The state of a hub as one file: consistent while it is written, whole or nothing, and open to stock tools."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

import pytest
import zstandard
from msgspec.structs import replace

from holdfast.adapters.hub_files.tar import TarHubFiles, _Plain
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.adapters.sealing.age import AgeSealer
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.errors import Conflict, Corrupt, Failed, Invalid
from holdfast.model.hub_file import FORMAT, SEALED_BYTES_MAX, About, Part
from holdfast.model.revision import Head
from holdfast.ports.hub_files import Staged
from holdfast.ports.ledger_store import Transaction

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "hub-file.md"
FILES = {"hub.key": b"the key\n", "hub.crt": b"the certificate\n", "audit.head": b"\0" * 9, "audit.jsonl": b"1\n2\n"}


def described(folder: str, parts: Mapping[str, Part]) -> About:
    return About(FORMAT, "f" * 64, Head(1, "0" * 64), 0, "ssh-ed25519 x", 1_800_000_000, "1", dict(parts))


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    state = tmp_path / "hub"
    state.mkdir(mode=0o700)
    store = SqliteStore.open(str(state / "ledger.db"), create=True)
    store.commit(Transaction(expect={}, put={f"k/{n}": os.urandom(2000) for n in range(200)}))
    store.leave()
    for name, content in FILES.items():
        (state / name).write_bytes(content)
    (state / "audit.jsonl").write_bytes(b"1\n2\nhalf a li")
    (state / "nonces.db").write_bytes(b"not in it")
    (state / "backups").mkdir()
    return state


def packed(hub: Path, describe: Callable[[str, Mapping[str, Part]], About] = described) -> bytes:
    with TarHubFiles().packed(str(hub), describe) as archive:
        return archive.read()


def unpacked(content: bytes, state_dir: str) -> AbstractContextManager[Staged]:
    return TarHubFiles().unpacked(lambda into: write(into, content), state_dir)


def write(into: IO[bytes], content: bytes) -> None:
    into.write(content)


def records(state: Path) -> dict[str, bytes]:
    store = SqliteStore.open_read_only(str(state / "ledger.db"))
    try:
        return {one.key: one.value for one in store.scan("")}
    finally:
        store.close()


def test_what_comes_out_is_what_went_in_without_what_does_not_belong(hub: Path, tmp_path: Path) -> None:
    before = records(hub)
    content = packed(hub)
    assert not [name for name in os.listdir(hub) if name.startswith(".holdfast")], "the copy is left"
    with unpacked(content, str(tmp_path / "new")) as staged:
        assert staged.about.fleet == "f" * 64
        assert not (tmp_path / "new").exists()
        staged.publish()
    assert records(tmp_path / "new") == before
    assert {name: (tmp_path / "new" / name).read_bytes() for name in FILES} == FILES
    names = {name for name in os.listdir(tmp_path / "new") if not name.startswith("ledger.db-")}
    assert names == {"ledger.db", *FILES}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert {(tmp_path / "new" / name).stat().st_mode & 0o777 for name in names} == {0o600}
    assert os.listdir(tmp_path) and not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_the_copy_is_of_one_moment_while_the_ledger_is_written(hub: Path, tmp_path: Path) -> None:
    store = SqliteStore.open(str(hub / "ledger.db"), create=False)
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            store.commit(Transaction(expect={}, put={"pair/a": b"%d" % number, "pair/b": b"%d" % number}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(5):
            with unpacked(packed(hub), str(tmp_path / f"copy{turn}")) as staged:
                staged.publish()
            found = records(tmp_path / f"copy{turn}")
            assert found.get("pair/a") == found.get("pair/b")
    finally:
        done.set()
        writer.join()
        store.leave()
    assert int(records(hub)["pair/a"]) > 5


def test_stock_tools_open_it_with_the_command_of_the_page(hub: Path, tmp_path: Path) -> None:
    pair = AgeIdentities().fresh()
    (tmp_path / "ME").write_text(pair.identity + "\n")
    (tmp_path / "FILE").write_bytes(AgeSealer().seal(packed(hub), [pair.recipient]))
    (command,) = re.findall(r"```sh\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    room = tmp_path / "room"
    room.mkdir()
    line = command.replace("ME FILE", "../ME ../FILE")
    subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=room, check=True, timeout=60)
    assert {*os.listdir(room)} == {"hub.json", "ledger.db", *FILES}
    assert records(room) == records(hub)


@pytest.mark.parametrize("at", [0.02, 0.5, 0.98])
def test_a_damaged_or_cut_file_is_refused_and_leaves_nothing(hub: Path, tmp_path: Path, at: float) -> None:
    content = packed(hub)
    place = int(len(content) * at)
    flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    for bad in (flipped, content[:place], b"", b"nothing of the kind"):
        with pytest.raises(Corrupt) as trouble, unpacked(bad, str(tmp_path / "new")) as staged:
            staged.publish()
        assert trouble.value.code == "hub_file_damaged"
    assert sorted(os.listdir(tmp_path)) == ["hub"]


def test_a_directory_with_something_in_it_is_refused_and_an_empty_one_is_replaced(hub: Path, tmp_path: Path) -> None:
    content = packed(hub)
    with pytest.raises(Conflict) as trouble, unpacked(content, str(hub)):
        pass
    assert trouble.value.exit_code == 5
    empty = tmp_path / "empty"
    empty.mkdir()
    os.chown(empty, 12, 13)
    with unpacked(content, str(empty)) as staged:
        staged.publish()
    owners = {(fact.st_uid, fact.st_gid) for fact in map(os.stat, (empty, empty / "ledger.db", empty / "hub.key"))}
    assert owners == {(12, 13)}, "the hub of that user could not read it"


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], check=True, timeout=60)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True, timeout=60)


def test_a_full_disk_leaves_nothing_and_says_so(hub: Path, tmp_path: Path) -> None:
    content = packed(hub)
    with small_disk(tmp_path / "small", "256k") as disk:
        with pytest.raises(Failed) as trouble, unpacked(content, str(disk / "new")) as staged:
            staged.publish()
        assert trouble.value.code == "no_space"
        assert os.listdir(disk) == []
    size = sum(path.stat().st_size for path in hub.rglob("*") if path.is_file())
    with small_disk(tmp_path / "full", f"{size // 1024 + 100}k") as disk:
        state = disk / "hub"
        shutil.copytree(hub, state)
        with pytest.raises(Failed) as trouble:
            packed(state)
        assert trouble.value.code == "no_space"
        assert not [name for name in os.listdir(state) if name.startswith(".holdfast")]


KILLED = """
import os, signal, sys
from holdfast.adapters.hub_files.tar import TarHubFiles, _Plain
from holdfast.adapters.hub_files import staging
real = getattr(os, sys.argv[3])
def dies(*args, **more):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[3], dies)
with TarHubFiles().unpacked(lambda into: into.write(open(sys.argv[1], "rb").read()), sys.argv[2]) as staged:
    staged.publish()
"""


@pytest.mark.parametrize("call", ["fchmod", "fsync", "rename"])
def test_a_restore_that_is_killed_leaves_no_hub_and_the_next_one_clears_up(
    hub: Path, tmp_path: Path, call: str
) -> None:
    (tmp_path / "file").write_bytes(packed(hub))
    words = [sys.executable, "-c", KILLED, str(tmp_path / "file"), str(tmp_path / "new"), call]
    assert subprocess.run(words, timeout=60, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "new").exists()
    assert [name for name in os.listdir(tmp_path) if name.startswith(".holdfast")]
    with unpacked((tmp_path / "file").read_bytes(), str(tmp_path / "new")) as staged:
        staged.publish()
    assert records(tmp_path / "new") == records(hub)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".holdfast")]


@pytest.mark.parametrize("lie", ["sha256", "size", "missing"])
def test_members_that_are_not_as_the_file_says_are_refused(hub: Path, tmp_path: Path, lie: str) -> None:
    """A zstd checksum holds for a file that was made so on purpose."""

    def lying(folder: str, parts: Mapping[str, Part]) -> About:
        about, key = described(folder, parts), parts["hub.key"]
        files = {
            "sha256": {**parts, "hub.key": Part(key.size_bytes, "0" * 64)},
            "size": {**parts, "hub.crt": Part(parts["hub.crt"].size_bytes - 1, parts["hub.crt"].sha256)},
            "missing": {**parts, "audit.more": key},
        }
        return replace(about, files=files[lie])

    with (
        pytest.raises(Corrupt) as trouble,
        unpacked(packed(hub, lying), str(tmp_path / "new")) as staged,
    ):
        staged.publish()
    assert trouble.value.code == "hub_file_damaged"
    assert sorted(os.listdir(tmp_path)) == ["hub"]


def test_a_state_directory_or_a_target_that_is_not_there_is_named(hub: Path, tmp_path: Path) -> None:
    with pytest.raises(Failed) as trouble:
        packed(tmp_path / "missing")
    assert trouble.value.code == "not_there" and "missing is not there" in trouble.value.message
    with pytest.raises(Failed) as trouble:
        TarHubFiles().stored(str(tmp_path / "no" / "file"), lambda into: write(into, b"x"))
    assert trouble.value.code == "not_there"


def test_a_file_is_stored_whole_or_not_at_all_and_over_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert TarHubFiles().stored(str(path), lambda into: write(into, b"content")) == 7
    assert path.read_bytes() == b"content" and path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Conflict):
        TarHubFiles().stored(str(path), lambda into: write(into, b"other"))

    def breaks(into: IO[bytes]) -> None:
        into.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        TarHubFiles().stored(str(tmp_path / "half"), breaks)
    assert os.listdir(tmp_path) == ["file"] and path.read_bytes() == b"content"
    left = tmp_path / ".holdfast-hub-file-999999999-x"
    left.write_bytes(b"of a killed process")
    recent = tmp_path / ".holdfast-hub-file-999999998-y"
    recent.write_bytes(b"perhaps of another machine")
    os.utime(left, (1, 1))
    TarHubFiles().stored(str(tmp_path / "next"), lambda into: write(into, b"x"))
    assert sorted(os.listdir(tmp_path)) == [recent.name, "file", "next"]


def test_what_is_no_file_of_a_hub_is_not_read(tmp_path: Path) -> None:
    """A pipe has no end, and would be waited for."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").touch()
    os.truncate(tmp_path / "long", SEALED_BYTES_MAX + 1)
    for name in ("missing", "pipe", "long", "."):
        with pytest.raises(Invalid), TarHubFiles().opened(str(tmp_path / name)):
            pass


def test_a_header_that_is_data_is_not_read_into_memory(hub: Path, tmp_path: Path) -> None:
    """Any person can seal a file to a recipient: 200 MB of zeros in a header are 20 kB of file."""
    out = io.BytesIO()
    with zstandard.ZstdCompressor(level=3).stream_writer(out, closefd=False) as squeezed:
        for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
            header = tarfile.TarInfo("bomb")
            header.type, header.size = kind, 200_000_000
            squeezed.write(header.tobuf(tarfile.USTAR_FORMAT))
            squeezed.write(bytes(200_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt), unpacked(out.getvalue(), str(tmp_path / "new")):
            pass
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
    assert sorted(os.listdir(tmp_path)) == ["hub"]


def sparse_map() -> Iterator[bytes]:
    """The list of the pieces of a sparse file goes on for 50 MB."""
    header = tarfile.TarInfo("hub.json")
    header.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[482:495] = b"\1" + b"00000000001\0"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    yield bytes(block)
    more = (b"00000000001\0" * 2) * 21 + b"\1" + bytes(7)
    yield more * 100_000


def pax(records: Mapping[str, str]) -> Iterator[bytes]:
    body = b""
    for key, value in records.items():
        text = f" {key}={value}\n"
        body += f"{len(text) + 2}{text}".encode()
    header = tarfile.TarInfo("more")
    header.type, header.size = tarfile.XHDTYPE, len(body)
    yield header.tobuf(tarfile.USTAR_FORMAT) + body.ljust(512, b"\0")


def sparse_numbers() -> Iterator[bytes]:
    """The same list in the form that a header of its own announces: it is read with the data."""
    yield from pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    header = tarfile.TarInfo("hub.json")
    header.size = 1 << 32
    yield header.tobuf(tarfile.USTAR_FORMAT)
    yield b"99999999999\n" + b"1\n" * 10_000_000


def headers_of_headers() -> Iterator[bytes]:
    for _ in range(5_000):
        yield from pax({"path": "abc"})


@pytest.mark.parametrize("bomb", [sparse_map, sparse_numbers, headers_of_headers])
def test_a_list_of_pieces_or_of_headers_is_not_read_into_memory(
    hub: Path, tmp_path: Path, bomb: Callable[[], Iterator[bytes]]
) -> None:
    """A hub has no sparse files. Each of these is a few kB of file."""
    out = io.BytesIO()
    with zstandard.ZstdCompressor(level=3).stream_writer(out, closefd=False) as squeezed:
        for piece in bomb():
            squeezed.write(piece)
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt), unpacked(out.getvalue(), str(tmp_path / "new")):
            pass
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
    assert sorted(os.listdir(tmp_path)) == ["hub"]


def test_a_part_of_more_than_8_gb_has_a_header_of_its_own_and_is_read(tmp_path: Path) -> None:
    """ustar has no number for it."""
    member = tarfile.TarInfo("ledger.db")
    member.size = 9 << 30
    header = member.tobuf(tarfile.PAX_FORMAT)
    with tarfile.open(fileobj=io.BytesIO(header), mode="r|", tarinfo=_Plain) as tar:
        found = tar.next()
    assert found is not None and (found.name, found.size) == ("ledger.db", 9 << 30)
