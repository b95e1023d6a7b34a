"""What only a ledger in a file can break: crashes, full and failing disks, damaged files, readers beside writers."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.ledger_store.sqlite import schema as sqlite_schema
from holdfast.adapters.ledger_store.sqlite import writer as sqlite_writer
from holdfast.adapters.ledger_store.sqlite.store import SqliteReader, SqliteStore
from holdfast.errors import Corrupt, Failed, Invalid, TryLater
from holdfast.ports.ledger_store import Record, Transaction

# Step n puts left = right = n and replaces the one blob; it says what it was told before it goes on.
WRITER = """
import os, sys
from hashlib import sha256
from holdfast.adapters.ledger_store.sqlite import writer as sqlite_writer
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.errors import HoldfastError
from holdfast.ports.ledger_store import Transaction

path, steps, checkpoint_pages, then = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
sqlite_writer.CHECKPOINT_PAGES = checkpoint_pages
blob = lambda n: b"%d" % n * 9000
name = lambda n: sha256(blob(n)).hexdigest()
say = lambda text: os.write(1, text.encode() + b"\\n")
try:
    store = SqliteStore.open(path, create=True)
except HoldfastError as error:
    say(f"closed {error.code}")
    sys.exit(1)
for step in range(steps):
    n = store.revision() + 1
    both = {"left": b"%d" % n, "right": b"%d" % n}
    tx = Transaction(expect={}, put=both, blobs={name(n): blob(n)}, drop_blobs=[name(n - 1)])
    try:
        say(f"ack {store.commit(tx)}")
    except HoldfastError as error:
        say(f"refused {error.code} reads {store.revision()}")
if then == "stay":
    sys.stdin.read()
store.close()
"""


def writer_command(path: Path, steps: int, checkpoint_pages: int = 1000, then: str = "close") -> list[str]:
    return [sys.executable, "-S", "-c", WRITER, str(path), str(steps), str(checkpoint_pages), then]


def writer_environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry), "PYTHONDONTWRITEBYTECODE": "1"}


def run_writer(path: Path, steps: int, checkpoint_pages: int = 1000, strace: Sequence[str] = ()) -> list[str]:
    """What it said; an extra last line says if it was killed."""
    command = [*(["strace", "-f", "-qq", *strace] if strace else []), *writer_command(path, steps, checkpoint_pages)]
    done = subprocess.run(command, env=writer_environment(), capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines() + (["killed"] if done.returncode == -signal.SIGKILL else [])


@contextmanager
def living_writer(path: Path, steps: int) -> Iterator[subprocess.Popen[str]]:
    """A process that has written and still holds the ledger open."""
    process = subprocess.Popen(
        writer_command(path, steps, then="stay"),
        env=writer_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        for _ in range(steps):
            assert process.stdout.readline().startswith("ack")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def open_store(path: Path, create: bool = False) -> SqliteStore:
    return SqliteStore.open(str(path), create=create)


def assert_whole(reader: SqliteReader) -> int:
    """Every step is there completely or not at all (I-08)."""
    with reader.reading() as look:
        revision = look.revision()
        if revision == 0:
            assert look.scan("") == []
            assert list(look.blob_digests()) == []
            return 0
        value = b"%d" % revision
        assert look.scan("") == [Record("left", value, 1, revision), Record("right", value, 1, revision)]
        blob = value * 9000
        assert list(look.read_blobs(look.blob_digests())) == [(sha256(blob).hexdigest(), blob)]
        return revision


def put(store: SqliteStore, **values: bytes) -> int:
    return store.commit(Transaction(expect={}, put=values))


def fingerprint(folder: Path) -> dict[str, tuple[int, int, str]]:
    return {
        file.name: (file.stat().st_size, file.stat().st_mtime_ns, sha256(file.read_bytes()).hexdigest())
        for file in folder.iterdir()
    }


def read_only(path: Path) -> SqliteReader:
    return SqliteStore.open_read_only(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger" / "ledger.db"


# Files


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_new_ledger_is_private_whatever_the_umask(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = open_store(path, create=True)
        put(store, a=b"")
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_everything_is_there_after_closing_and_opening(path: Path) -> None:
    store = open_store(path, create=True)
    digest = sha256(b"x").hexdigest()
    store.commit(Transaction(expect={}, put={"a": b"1"}, blobs={digest: b"x"}))
    store.close()
    again = open_store(path, create=True)
    assert again.get("a") == Record("a", b"1", 1, 1)
    assert again.blob(digest) == b"x"
    assert put(again, a=b"2") == 2
    again.close()
    with pytest.raises(TryLater):
        put(again, a=b"3")
    with pytest.raises(TryLater):
        again.get("a")


def test_a_creator_killed_halfway_leaves_no_ledger_and_no_obstacle(path: Path) -> None:
    path.parent.mkdir()
    (path.parent / "ledger.db.new-999999999").write_bytes(b"half a draft")
    with pytest.raises(Invalid):
        open_store(path)
    open_store(path, create=True).close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]


def test_creating_a_ledger_that_exists_leaves_it_alone(path: Path) -> None:
    store = open_store(path, create=True)
    put(store, a=b"1")
    sqlite_schema.create(str(path))  # as if two had found it missing
    store.close()
    again = open_store(path, create=True)
    assert again.get("a") == Record("a", b"1", 1, 1)
    again.close()


def test_a_blob_that_rotted_is_healed_by_storing_it_again(path: Path) -> None:
    store = open_store(path, create=True)
    digest = sha256(b"good").hexdigest()
    tx = Transaction(expect={}, put={}, blobs={digest: b"good"})
    store.commit(tx)
    db = apsw.Connection(str(path))
    db.execute("UPDATE blobs SET content = x'00'")
    db.close()
    assert store.blob(digest) == b"\0"
    store.commit(tx)
    assert store.blob(digest) == b"good"
    store.close()


# What cannot be opened


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def alter(path: Path, statement: str) -> None:
    db = apsw.Connection(str(path))
    db.execute(statement).fetchall()
    db.close()


DAMAGES: dict[str, tuple[type[Exception], Callable[[Path], None]]] = {
    "ledger_missing": (Invalid, lambda path: path.unlink()),
    "ledger_foreign": (Invalid, lambda path: alter(path, "PRAGMA application_id = 1")),
    "ledger_newer": (Invalid, lambda path: alter(path, "PRAGMA user_version = 2")),
    "ledger_unreadable": (Corrupt, lambda path: cut(path, path.write_bytes(b"not a database" * 1000) // 2)),
    "ledger_unreadable ": (Corrupt, lambda path: alter(path, "DROP TABLE changes")),
    "ledger_unreadable  ": (Corrupt, lambda path: scribble(path, at=100, size=3000)),
    "ledger_unreadable   ": (Corrupt, lambda path: replace_by_folder(path)),
}


def scribble(path: Path, at: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * size)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def openers() -> list[Callable[[Path], SqliteReader]]:
    return [open_store, read_only]


@pytest.mark.parametrize("opener", openers(), ids=["open", "open_read_only"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_has_its_own_code_and_a_remedy(
    path: Path, damage: str, opener: Callable[[Path], SqliteReader]
) -> None:
    run_writer(path, steps=3)
    family, harm = DAMAGES[damage]
    harm(path)
    with pytest.raises(family) as refused:
        opener(path)
    assert getattr(refused.value, "code", "") == damage.strip()
    assert getattr(refused.value, "remedy", "")


@pytest.mark.parametrize("opener", openers(), ids=["open", "open_read_only"])
def test_a_ledger_cut_off_anywhere_is_called_truncated(path: Path, opener: Callable[[Path], SqliteReader]) -> None:
    run_writer(path, steps=3)
    whole = path.read_bytes()
    for size in (0, 1, 15, 16, 99, 100, 4095, 4096, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(Corrupt) as refused:
            opener(path)
        assert refused.value.code == "ledger_truncated", size
    path.write_bytes(whole)
    opener(path).close()


def test_a_newer_format_still_in_the_wal_is_noticed(path: Path) -> None:
    with living_writer(path, steps=1):
        db = apsw.Connection(str(path))
        db.pragma("user_version", 2)
        with pytest.raises(Invalid) as refused:
            open_store(path)
        assert refused.value.code == "ledger_newer"
        with pytest.raises(Invalid) as refused:
            read_only(path)
        assert refused.value.code == "ledger_newer"
        db.close()


# Reading without a trace (I-09, O-34)


def test_reading_beside_a_living_writer_writes_nothing(path: Path) -> None:
    with living_writer(path, steps=3):
        before = fingerprint(path.parent)
        reader = read_only(path)
        assert assert_whole(reader) == 3
        reader.close()
        assert fingerprint(path.parent) == before


def test_reading_after_the_very_first_commit_of_a_living_writer_writes_nothing(path: Path) -> None:
    with living_writer(path, steps=1):
        before = fingerprint(path.parent)
        reader = read_only(path)
        assert assert_whole(reader) == 1
        reader.close()
        assert fingerprint(path.parent) == before


def test_reading_after_a_killed_writer_sees_its_wal_and_writes_nothing(path: Path) -> None:
    with living_writer(path, steps=3):
        pass
    assert (path.parent / "ledger.db-wal").stat().st_size > 0
    before = fingerprint(path.parent)
    reader = read_only(path)
    assert assert_whole(reader) == 3
    reader.close()
    assert fingerprint(path.parent) == before


@pytest.mark.parametrize("missing", [(), ("-shm",), ("-wal", "-shm")], ids=["all files", "no shm", "database only"])
@pytest.mark.parametrize("killed", [False, True])
def test_reading_at_rest_writes_nothing(path: Path, missing: tuple[str, ...], killed: bool) -> None:
    run_writer(path, steps=2)
    if killed and "-wal" not in missing:
        with living_writer(path, steps=1):
            pass
    for suffix in missing:
        Path(f"{path}{suffix}").unlink()
    before = fingerprint(path.parent)
    reader = read_only(path)
    assert assert_whole(reader) == (3 if killed and "-wal" not in missing else 2)
    reader.close()
    assert fingerprint(path.parent) == before


def test_a_reader_of_this_process_does_not_disturb_its_writer(path: Path) -> None:
    """Closing a plain file handle would drop the writer's POSIX locks on the file."""
    store = open_store(path, create=True)
    put(store, a=b"1")
    locks = posix_locks(path)
    assert locks
    reader = read_only(path)
    assert reader.get("a") == Record("a", b"1", 1, 1)
    reader.close()
    assert posix_locks(path) == locks
    store.close()


def posix_locks(path: Path) -> list[str]:
    inode = path.stat().st_ino
    held = Path("/proc/locks").read_text().splitlines()
    return sorted(line.split(":", 1)[1] for line in held if f":{inode} " in line)


def test_a_silent_reading_survives_a_writer_that_starts_and_checkpoints(path: Path) -> None:
    with living_writer(path, steps=2):
        pass
    reader = read_only(path)
    with reader.reading() as look:
        assert look.revision() == 2
        assert run_writer(path, steps=30, checkpoint_pages=5)[-1] == "ack 32"
        assert [record.value for record in look.scan("")] == [b"2", b"2"]
        blob = b"2" * 9000
        assert list(look.read_blobs(look.blob_digests())) == [(sha256(blob).hexdigest(), blob)]
    assert assert_whole(reader) == 32
    reader.close()


def test_readers_may_come_at_any_moment_of_a_writers_life(path: Path) -> None:
    """I-09, O-34: also while writers start, recover, checkpoint and close."""
    run_writer(path, steps=1)
    with ThreadPoolExecutor(1) as crew:
        writers = crew.submit(lambda: [run_writer(path, steps=5, checkpoint_pages=5) for _ in range(6)])
        looks = 0
        while not writers.done():
            reader = read_only(path)
            assert assert_whole(reader) >= 1
            reader.close()
            looks += 1
    assert [lines[-1] for lines in writers.result()] == [f"ack {n}" for n in (6, 11, 16, 21, 26, 31)]
    assert looks > 6


def test_readers_and_boot_go_on_while_somebody_holds_the_write_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-09, O-34, C-17: a held lock stops writers, with a typed answer, and nobody else."""
    monkeypatch.setattr(sqlite_schema, "LOCK_WAIT_MS", 50)
    store = open_store(path, create=True)
    put(store, a=b"1")
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TryLater) as refused:
        put(store, a=b"2")
    assert refused.value.code == "ledger_locked"
    assert store.get("a") == Record("a", b"1", 1, 1)
    reader = read_only(path)
    assert reader.revision() == 1
    reader.close()
    second = open_store(path)
    assert second.revision() == 1
    second.close()
    other.execute("ROLLBACK")
    other.close()
    assert put(store, a=b"2") == 2
    store.close()


def test_two_processes_may_write_and_share_one_order_of_revisions(path: Path) -> None:
    store = open_store(path, create=True)
    store.commit(Transaction(expect={}, put={"mine": b""}))
    with ThreadPoolExecutor(1) as crew:
        theirs = crew.submit(run_writer, path, 20)
        mine = [put(store, mine=b"%d" % n) for n in range(20)]
        acked = [int(line.split()[1]) for line in theirs.result(60)]
    assert sorted(mine + acked) == list(range(2, 42))
    assert store.revision() == 41
    store.close()


# Crashes (I-08, R02)


def test_what_was_acknowledged_survives_kill_9_at_any_time(path: Path) -> None:
    acked = 0
    for lines in (1, 7, 40):
        process = subprocess.Popen(
            writer_command(path, steps=100_000, checkpoint_pages=20),
            env=writer_environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.kill()
        rest = [line for line in process.stdout.read().splitlines() if line.startswith("ack ")]
        process.wait()
        process.stdout.close()
        acked = int(rest[-1].split()[1]) if rest else acked + lines
        silent = read_only(path)
        assert acked <= assert_whole(silent) <= acked + 1
        silent.close()
        store = open_store(path)
        acked = assert_whole(store)
        store.close()


STEPS = 3


def kill_at(path: Path, syscall: str, n: int) -> bool:
    """Run the writer, killed at its n-th call of this kind; true if it was hit."""
    strace = ["-o", "/dev/null", "-e", f"trace={syscall}", "-e", f"inject={syscall}:signal=SIGKILL:when={n}"]
    said = run_writer(path, STEPS, checkpoint_pages=12, strace=strace)
    hit = said[-1] == "killed"
    acked = len(said) - hit
    assert said[:acked] == [f"ack {step + 1}" for step in range(acked)]
    if not path.exists():
        assert acked == 0
        open_store(path, create=True).close()
    silent = read_only(path)
    seen = assert_whole(silent)
    silent.close()
    store = open_store(path)
    kept = assert_whole(store)
    assert acked <= kept <= acked + 1
    assert kept == seen
    assert put(store, left=b"on") == kept + 1
    store.close()
    return hit


@pytest.mark.lab
@pytest.mark.parametrize("syscall", ["pwrite64", "fdatasync", "fsync"])
def test_killed_at_every_single_write_and_flush_the_ledger_is_the_old_or_the_new(tmp_path: Path, syscall: str) -> None:
    """R02: positions are enumerated, not sampled, until a run ends un-hit. The last ones hit the closing checkpoint."""
    with ThreadPoolExecutor(4) as crew:
        for first in count(1, 4):
            tries = [(tmp_path / f"{n}" / "ledger" / "ledger.db", n) for n in range(first, first + 4)]
            for path, _ in tries:
                path.parent.parent.mkdir()
            hits = list(crew.map(lambda task: kill_at(task[0], syscall, task[1]), tries))
            for path, _ in tries:
                shutil.rmtree(path.parent.parent)
            if not all(hits):
                break
    assert any(hits) or first > 1


# Failing disks (R06)


def events(log: Path) -> list[str]:
    """flush, FAILED flush, or ack, as the kernel saw them."""
    seen = []
    for line in log.read_text().splitlines():
        if re.search(r'write\(1<[^>]*>, "ack', line):
            seen.append("ack")
        elif "sync(" in line:
            seen.append(
                ("FAILED " if "INJECTED" in line else "") + re.sub(r".*?(f\w*sync)\(\d+<([^>]*)>.*", r"\1 \2", line)
            )
    return seen


def assert_flushed_before_each_ack(seen: list[str], path: Path) -> None:
    flushed = False
    for event in seen:
        if event == "ack":
            assert flushed, seen
        flushed = event != "ack" and (flushed or event == f"fdatasync {path}-wal")


@pytest.mark.lab
@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
@pytest.mark.parametrize("again", ["", "+"], ids=["once", "for good"])
def test_nothing_is_acknowledged_after_a_failed_flush(tmp_path: Path, call: str, again: str) -> None:
    """R06, every position: the store stops writing, goes on reading, and is old or new after a restart."""

    def fail_at(n: int) -> bool:
        path, log = tmp_path / f"{n}" / "ledger" / "ledger.db", tmp_path / f"{n}" / "strace"
        path.parent.parent.mkdir()
        strace = ["-y", "-o", str(log), "-e", "trace=fsync,fdatasync,write"]
        said = run_writer(
            path, 4, checkpoint_pages=12, strace=[*strace, "-e", f"inject={call}:error=EIO:when={n}{again}"]
        )
        seen = events(log)
        if not any(event.startswith("FAILED") for event in seen):
            assert said == [f"ack {step + 1}" for step in range(4)]
            assert_flushed_before_each_ack(seen, path)
            return False
        harmless = f"FAILED fdatasync {path.parent}"
        first = next((i for i, event in enumerate(seen) if event.startswith("FAILED") and event != harmless), len(seen))
        assert "ack" not in seen[first:], seen
        # SQLite flushes the directory of a new file and ignores the answer; we flush it ourselves after making the
        # ledger and again after opening it, and listen.
        if harmless in seen and "ack" in seen:
            assert seen[: seen.index("ack")].count(f"fsync {path.parent}") == 2
        acked = sum(line.startswith("ack") for line in said)
        assert all(line.startswith(("ack", f"refused store_failed reads {acked}", "closed ")) for line in said), said
        if path.exists():
            store = open_store(path)
            assert acked <= assert_whole(store) <= acked + 1
            store.close()
        return True

    with ThreadPoolExecutor(4) as crew:
        for first in count(1, 4):
            hits = list(crew.map(fail_at, range(first, first + 4)))
            if not all(hits):
                break
    assert any(hits) or first > 1


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.lab
def test_a_full_disk_refuses_cleanly_and_later_commits_succeed_once_there_is_space(tmp_path: Path) -> None:
    """R06 family, and R05 for the ledger: no_space with a remedy, reads go on, no restart needed."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        ballast = disk / "ballast"
        store = open_store(disk / "ledger" / "ledger.db", create=True)
        put(store, head=b"before")
        ballast.write_bytes(bytes(1_000_000))
        refusals = 0
        for n in range(40):
            blob = b"%d" % n * 30_000
            try:
                store.commit(Transaction(expect={}, put={f"k{n}": b""}, blobs={sha256(blob).hexdigest(): blob}))
            except Failed as error:
                assert error.code == "no_space"
                assert error.remedy
                refusals += 1
        assert refusals > 1
        kept = store.revision()
        assert len(store.scan("k")) == len(list(store.blob_digests())) == kept - 1
        ballast.unlink()
        assert put(store, head=b"after") == kept + 1
        store.close()
        again = open_store(disk / "ledger" / "ledger.db")
        assert again.get("head") == Record("head", b"after", 1, kept + 1)
        again.close()


@pytest.mark.lab
def test_one_transaction_too_big_for_the_disk_does_not_hurt_its_neighbours(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        store = open_store(disk / "ledger" / "ledger.db", create=True)
        lock = apsw.Connection(str(disk / "ledger" / "ledger.db"))
        lock.execute("BEGIN IMMEDIATE")  # so that the following wait and form one group
        huge = bytes(3_000_000)
        futures = [
            store.submit(Transaction(expect={}, put={"first": b""})),
            store.submit(Transaction(expect={}, put={"small": b""})),
            store.submit(Transaction(expect={}, put={}, blobs={sha256(huge).hexdigest(): huge})),
            store.submit(Transaction(expect={"none": 7}, put={"none": b""})),
            store.submit(Transaction(expect={}, put={"last": b""})),
        ]
        lock.execute("ROLLBACK")
        lock.close()
        assert [getattr(future.exception(10), "code", None) for future in futures] == [
            None,
            None,
            "no_space",
            "failed_precondition",
            None,
        ]
        assert [record.key for record in store.scan("")] == ["first", "last", "small"]
        store.close()


@pytest.mark.lab
@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT"])
def test_space_or_quota_used_up_is_the_same_to_us(path: Path, error: str) -> None:
    run_writer(path, steps=1)
    strace = [
        "-o",
        "/dev/null",
        "-e",
        "trace=pwrite64",
        "-P",
        f"{path}-wal",
        "-e",
        f"inject=pwrite64:error={error}:when=1..2",
    ]
    said = run_writer(path, steps=4, strace=strace)
    assert said == ["refused no_space reads 1", "refused no_space reads 1", "ack 2", "ack 3"]


@pytest.mark.lab
def test_a_write_that_fails_for_another_reason_ends_all_writing(path: Path) -> None:
    run_writer(path, steps=1)
    strace = ["-o", "/dev/null", "-e", "trace=pwrite64", "-P", f"{path}-wal", "-e", "inject=pwrite64:error=EIO:when=2"]
    assert run_writer(path, steps=3, strace=strace) == ["refused store_failed reads 1"] * 3
    assert run_writer(path, steps=1) == ["ack 2"]


@pytest.mark.lab
@pytest.mark.parametrize("killed", [False, True])
def test_a_ledger_on_a_read_only_mount_can_be_read(tmp_path: Path, path: Path, killed: bool) -> None:
    """I-09."""
    run_writer(path, steps=2)
    if killed:
        with living_writer(path, steps=1):
            pass
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    subprocess.run(["mount", "--bind", str(path.parent), str(mounted)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(mounted)], check=True)
        for missing in ("", "-shm"):
            if missing:
                Path(f"{path}{missing}").unlink()
            before = fingerprint(path.parent)
            reader = read_only(mounted / path.name)
            assert assert_whole(reader) == (3 if killed else 2)
            reader.close()
            assert fingerprint(path.parent) == before
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_an_interrupted_waiter_does_not_stop_the_others(path: Path) -> None:
    """A caller that gives up while it waits in line must not take the lead with it."""
    store = open_store(path, create=True)
    lock = apsw.Connection(str(path))
    lock.execute("BEGIN IMMEDIATE")
    first = threading.Thread(target=put, args=(store,), kwargs={"first": b""})
    first.start()
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    while not store._writer._line._led:
        pass
    with pytest.raises(KeyboardInterrupt):
        put(store, second=b"")
    lock.execute("ROLLBACK")
    lock.close()
    first.join(60)
    assert put(store, third=b"") == 3
    assert [record.key for record in store.scan("")] == ["first", "second", "third"]
    store.close()


# Leaving (what a command does at its end)


def wal_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def leave_after(path: Path, step: int) -> None:
    store = open_store(path, create=True)
    put(store, **{f"k{step % 7}": b"x" * 200_000})
    store.leave()


def test_processes_that_come_and_go_keep_the_wal_short(path: Path) -> None:
    longest = 0
    for step in range(120):
        leave_after(path, step)
        longest = max(longest, wal_bytes(path))
    page_bytes = 4096 + 24
    assert longest > 100 * page_bytes  # it is not emptied each time, which would cost flushes
    assert longest < 2 * sqlite_writer.CHECKPOINT_PAGES * page_bytes
    reader = read_only(path)
    assert reader.revision() == 120
    reader.close()


def test_leaving_is_no_trouble_while_somebody_reads_or_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_PAGES", 1)
    leave_after(path, 0)
    assert wal_bytes(path) == 0
    store = open_store(path)
    put(store, a=b"1")
    with somebody(path, "BEGIN; SELECT count(*) FROM live"), somebody(path, "BEGIN IMMEDIATE"):
        store.leave()
    store.leave()  # a second time changes nothing
    store.close()
    assert wal_bytes(path) > 0
    leave_after(path, 1)
    assert wal_bytes(path) == 0
    reader = read_only(path)
    assert [record.key for record in reader.scan("")] == ["a", "k0", "k1"]
    reader.close()


@contextmanager
def somebody(path: Path, doing: str) -> Iterator[None]:
    other = sqlite_schema.connect(str(path))
    other.execute(doing).fetchall()
    yield
    other.close()


@pytest.mark.lab
def test_leaving_after_a_small_commit_flushes_nothing(path: Path, tmp_path: Path) -> None:
    run_writer(path, steps=1)
    flushes = []
    for ending in ("os._exit(0)", "os._exit(0)", "store.leave()"):  # the first one begins the WAL anew
        script = WRITER.replace("\nstore.close()", f"\n{ending}")
        trace = tmp_path / "trace"
        command = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
        command += [sys.executable, "-S", "-c", script, str(path), "1", "1000", "leave"]
        done = subprocess.run(command, env=writer_environment(), capture_output=True, text=True, timeout=60)
        assert done.stdout.startswith("ack"), done.stderr
        flushes.append(len(trace.read_text().splitlines()))
    assert flushes[1] == flushes[2]
