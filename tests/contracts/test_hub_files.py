"""The state of a hub as one file: consistent while it is written, whole or nothing, and open to stock tools."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.hub_files.tar import TarHubFiles
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.adapters.sealing.age import AgeSealer
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.errors import Conflict, Corrupt, Failed
from holdfast.model.hub_file import FORMAT, About, Part
from holdfast.model.revision import Head
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


def packed(hub: Path) -> bytes:
    return TarHubFiles().packed(str(hub), described)


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
    with TarHubFiles().unpacked(content, str(tmp_path / "new")) as staged:
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
            with TarHubFiles().unpacked(packed(hub), str(tmp_path / f"copy{turn}")) as staged:
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
        with pytest.raises(Corrupt) as trouble, TarHubFiles().unpacked(bad, str(tmp_path / "new")) as staged:
            staged.publish()
        assert trouble.value.code == "hub_file_damaged"
    assert sorted(os.listdir(tmp_path)) == ["hub"]


def test_a_directory_with_something_in_it_is_refused_and_an_empty_one_is_replaced(hub: Path, tmp_path: Path) -> None:
    content = packed(hub)
    with pytest.raises(Conflict) as trouble, TarHubFiles().unpacked(content, str(hub)):
        pass
    assert trouble.value.exit_code == 5
    empty = tmp_path / "empty"
    empty.mkdir()
    os.chown(empty, 12, 13)
    with TarHubFiles().unpacked(content, str(empty)) as staged:
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
        with pytest.raises(Failed) as trouble, TarHubFiles().unpacked(content, str(disk / "new")) as staged:
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
from holdfast.adapters.hub_files.tar import TarHubFiles
from holdfast.adapters.hub_files import staging
real = getattr(os, sys.argv[3])
def dies(*args, **more):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[3], dies)
with TarHubFiles().unpacked(open(sys.argv[1], "rb").read(), sys.argv[2]) as staged:
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
    with TarHubFiles().unpacked((tmp_path / "file").read_bytes(), str(tmp_path / "new")) as staged:
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
        TarHubFiles().unpacked(TarHubFiles().packed(str(hub), lying), str(tmp_path / "new")) as staged,
    ):
        staged.publish()
    assert trouble.value.code == "hub_file_damaged"
    assert sorted(os.listdir(tmp_path)) == ["hub"]
