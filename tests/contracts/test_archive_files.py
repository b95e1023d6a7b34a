"""Everything that a file system has comes back: modes, owners, times, links, attributes, holes, odd names (R12)."""

import json
import os
import random
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import Failed, TryLater
from holdfast.ports.archive import Rules
from tests.fleets.archives import Place, facts, process_place
from tests.fleets.counts import SOAK

RESTORES = 20 if SOAK else 2


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield process_place(tmp_path)
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True, timeout=60)  # Python does not reach the deepest ones


def odd_tree(top: Path, seed: int = 0) -> None:
    chance = random.Random(seed)
    for number in range(60):
        folder = top / f"d{chance.randrange(5)}" / f"e{chance.randrange(3)}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"file{number}"
        file.write_bytes(chance.randbytes(chance.choice([0, 1, 511, 512, 513, 5000, 200_000])))
        os.chown(file, chance.randrange(3000), chance.randrange(3000))
        file.chmod(chance.choice([0o600, 0o644, 0o755, 0o4755, 0o2755, 0o000, 0o1644]))
        os.utime(file, ns=(1, chance.choice([0, 1, 1_700_000_000_123_456_789, -5_000_000_001])))
        if number % 5 == 0:
            os.setxattr(file, "user.colour", chance.randbytes(20))
            os.setxattr(file, "trusted.x", b"")
        if number % 7 == 0:
            os.link(file, folder / f"hard{number}")
        if number % 6 == 0:
            os.symlink(chance.choice(["file1", "/etc/passwd", "../..", "n" * 300]), folder / f"symlink{number}")
            os.chown(folder / f"symlink{number}", 77, 78, follow_symlinks=False)
            os.setxattr(folder / f"symlink{number}", "trusted.link", b"%d" % number, follow_symlinks=False)
    long = top / "long"
    long.write_bytes(chance.randbytes(17 << 20))
    os.setxattr(long, "user.long", b"1")
    long.chmod(0o4711)
    with open(top / "sparse", "wb") as holey:
        holey.truncate(9 << 20)
        os.pwrite(holey.fileno(), b"data", 5 << 20)
    with open(top / "long-sparse", "wb") as holey:
        holey.truncate(1 << 40)
        os.pwrite(holey.fileno(), b"data" * 9000, (700 << 20) + 12345)
    with open(top / "hole", "wb") as holey:
        holey.truncate(1 << 20)
    odd = os.path.join(os.fsencode(top), b'odd \xff\xfe \\x41 \n "quotes" ,"seen":[')
    os.makedirs(odd)
    with open(os.path.join(odd, b"\xe2\x82\xac" * 80), "wb") as named:
        named.write(b"euro")
    deep = top / "deep"
    for _ in range(40):
        deep = deep / ("n" * 100)
    os.makedirs(deep.parent.parent)
    (top / "empty").mkdir(mode=0o700)
    for folder in (top / "d0", top):
        os.setxattr(folder, "user.dir", b"d")
        folder.chmod(0o2750)
        os.chown(folder, 5, 6)
        os.utime(folder, ns=(5, 1_600_000_000_000_000_007))


@pytest.mark.parametrize("seed", range(RESTORES))
def test_r12_a_restore_is_identical(place: Place, seed: int) -> None:
    odd_tree(place.top, seed)
    packed = place.pack()
    place.unpack(packed)
    restored = place.folder / "restored"
    assert facts_of(place.top) == facts_of(restored)
    for name in ("sparse", "long-sparse", "hole"):
        assert os.stat(restored / name).st_blocks <= os.stat(place.top / name).st_blocks + 8, name
    with open(restored / "long-sparse", "rb") as file:
        assert os.pread(file.fileno(), 36000, (700 << 20) + 12345) == b"data" * 9000


def facts_of(top: Path) -> dict[bytes, tuple[object, ...]]:
    huge = top / "long-sparse"
    about = os.stat(huge)
    aside = top.parent / f"aside-{top.name}"
    mtime = os.stat(top).st_mtime_ns
    huge.rename(aside)  # a terabyte of zeros is not read here
    os.utime(top, ns=(mtime, mtime))
    found = facts(top)
    aside.rename(huge)
    os.utime(top, ns=(mtime, mtime))
    return {**found, b"long-sparse": (about.st_mode, about.st_uid, about.st_mtime_ns, about.st_size)}


def test_a_deep_tree_of_long_paths_comes_back(place: Place) -> None:
    """Paths longer than any path that the kernel takes at once."""
    here = os.open(place.top, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d" * 60, dir_fd=here)
        below = os.open("d" * 60, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    file = os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(file, b"deep")
    os.close(file)
    os.close(here)
    place.unpack(place.pack())
    said = [
        subprocess.run(
            ["sh", "-c", 'cd "$1" && find . -depth -printf "%y %m %s\n" | sort | uniq -c', "-", str(top)],
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for top in (place.top, place.folder / "restored")
    ]
    assert said[0] == said[1] and b" 4\n" in said[0]


def test_what_an_archive_cannot_hold_is_named(place: Place) -> None:
    (place.top / "file").write_bytes(b"x")
    os.mkfifo(place.top / "fifo")
    os.mknod(place.top / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.top / "socket"))
        (place.top / "mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", place.top / "mounted"], check=True, timeout=60)
        try:
            (place.top / "mounted" / "other").write_bytes(b"x")
            packed = place.pack()
        finally:
            subprocess.run(["umount", place.top / "mounted"], check=True, timeout=60)
    assert sorted(packed.left_out) == ["device", "fifo", "mounted", "socket"]
    place.unpack(packed)
    assert os.listdir(place.folder / "restored") == ["file"]


def test_a_symlink_is_never_followed(place: Place, tmp_path: Path) -> None:
    """A6, S10: a container that replaces a directory by a link does not get files of the node into its backup."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"the node's key")
    os.symlink(tmp_path / "secret", place.top / "link")
    os.symlink(tmp_path / "secret" / "key", place.top / "file-link")
    packed = place.pack()
    place.unpack(packed)
    assert packed.size_bytes == 0 and os.readlink(place.folder / "restored" / "link") == str(tmp_path / "secret")


@pytest.mark.parametrize("name", ["file", "symlink", "folder"])
def test_a_label_of_the_machine_is_not_brought_back(place: Place, name: str) -> None:
    """Another machine has another policy, or none: it may refuse the label."""
    (place.top / "file").write_bytes(b"1")
    (place.top / "folder").mkdir()
    os.symlink("file", place.top / "symlink")
    os.setxattr(place.top / name, "security.selinux", b"of_this_machine", follow_symlinks=False)
    place.unpack(place.pack())
    assert os.listxattr(place.folder / "restored" / name, follow_symlinks=False) == []


def test_a_file_that_does_not_come_to_rest_is_marked_and_read_again_next_time(place: Place) -> None:
    busy, over = place.top / "busy", threading.Event()
    busy.write_bytes(b"x" * (12 << 20))

    def write() -> None:
        with open(busy, "r+b", 0) as file:
            while not over.is_set():
                file.write(b"y")
                file.seek(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        packed = place.pack()
    finally:
        over.set()
        writer.join()
    assert packed.unsettled == ("busy",)
    place.write({"busy": b"z" * (12 << 20)})
    os.utime(busy, ns=(1, 1))
    after = place.pack()
    assert after.unsettled == () and after.new_packs == 1


def test_a_change_that_keeps_size_and_mtime_is_noticed(place: Place) -> None:
    file = place.top / "file"
    file.write_bytes(b"one")
    os.utime(file, ns=(7, 7))
    time.sleep(0.1)
    place.pack()
    file.write_bytes(b"two")
    os.utime(file, ns=(7, 7))
    packed = place.pack()
    place.unpack(packed)
    assert (place.folder / "restored" / "file").read_bytes() == b"two"


def test_metadata_alone_ships_no_content(place: Place) -> None:
    file = place.top / "file"
    file.write_bytes(b"content" * 1000)
    time.sleep(0.1)
    place.pack()
    file.chmod(0o640)
    os.chown(file, 3, 4)
    packed = place.pack()
    assert packed.new_packs == 0
    place.unpack(packed)
    about = os.stat(place.folder / "restored" / "file")
    assert (stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid) == (0o640, 3, 4)


def test_only_the_changed_parts_of_a_long_file_are_shipped(place: Place) -> None:
    """Issue 15: a large file with 1 % changed in place ships at most 5 %; in small: 1 part of 24."""
    long = place.top / "long"
    long.write_bytes(random.Random(1).randbytes(96 << 20))
    time.sleep(0.1)
    first = place.pack()
    with open(long, "r+b") as file:
        file.seek(50 << 20)
        file.write(b"changed" * 1000)
    second = place.pack()
    assert second.new_bytes <= 0.05 * first.new_bytes
    place.unpack(second)
    assert facts(place.top) == facts(place.folder / "restored")


def test_a_cut_in_a_long_file_goes_on_within_it(place: Place) -> None:
    (place.top / "long").write_bytes(random.Random(2).randbytes(80 << 20))
    place.ships_max = 3
    with pytest.raises(ConnectionError):
        place.pack()
    shipped = set(place.store)
    place.ships_max = 10**9
    packed = place.pack()
    assert len(shipped) == 3 and shipped < {one.digest for one in packed.packs}
    assert not shipped & set(place.shipped)
    place.unpack(packed)
    assert facts(place.top) == facts(place.folder / "restored")


def test_an_excluded_directory_is_not_entered(place: Place) -> None:
    place.write({"cache/x": b"1", "keep/x": b"2", "keep/a.log": b"3"})
    os.chmod(place.top / "cache", 0)
    packed = place.pack(rules=Rules(exclude=("cache", "*.log")))
    place.unpack(packed)
    assert place.read("restored") == {"keep/x": b"2"}


# ---- databases


def database(path: Path, rows: int = 2000, uid: int = 1234) -> sqlite3.Connection:
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("PRAGMA journal_mode=WAL")
    made.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
    made.execute("BEGIN")
    made.executemany("INSERT INTO t (b) VALUES (?)", ((os.urandom(200),) for _ in range(rows)))
    made.execute("COMMIT")
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        os.chown(name, uid, uid)
        name.chmod(0o640)
    return made


def owners(path: Path) -> list[tuple[int, int, int]]:
    names = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")]
    return [(about.st_uid, about.st_gid, about.st_mode) for about in map(os.stat, names)]


@pytest.fixture
def closed(place: Place) -> Place:
    """Data of another user below directories that only root enters."""
    place.folder.chmod(0o700)
    os.chown(place.top, 1234, 1234)
    return place


def test_m93_a_database_in_use_is_copied_by_sqlite_itself(closed: Place) -> None:
    path = closed.top / "app.db"
    writing = database(path)
    before = owners(path)
    packed = closed.pack()
    assert owners(path) == before, "owner and mode of db, wal and shm"
    writing.execute("INSERT INTO t (b) VALUES ('after')")
    assert packed.vacuumed == ("app.db",)
    closed.unpack(packed)
    restored = closed.folder / "restored"
    assert os.listdir(restored) == ["app.db"], "no wal, no shm"
    with sqlite3.connect(restored / "app.db") as copy:
        assert copy.execute("SELECT count(*) FROM t").fetchone() == (2000,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert (os.stat(restored / "app.db").st_uid, stat.S_IMODE(os.stat(restored / "app.db").st_mode)) == (1234, 0o640)
    writing.close()


def test_an_unchanged_database_is_recognised_before_any_vacuum(closed: Place) -> None:
    writing = database(closed.top / "app.db")
    time.sleep(0.1)
    closed.pack()
    again = closed.pack()
    assert again.vacuumed == () and again.new_packs == 0
    writing.execute("INSERT INTO t (b) VALUES ('more')")  # into the wal alone
    after = closed.pack()
    assert after.vacuumed == ("app.db",) and after.new_packs == 1
    writing.close()


def test_a_database_that_no_program_has_open_is_left_as_it_was(closed: Place) -> None:
    path = closed.top / "app.db"
    database(path).close()
    time.sleep(0.1)
    before = (path.read_bytes(), os.stat(path).st_mtime_ns, os.listdir(closed.top))
    assert closed.pack().vacuumed == ("app.db",)
    assert (path.read_bytes(), os.stat(path).st_mtime_ns, os.listdir(closed.top)) == before
    assert closed.pack().vacuumed == ()


def test_the_log_of_a_database_whose_program_was_killed_stays_for_the_program(closed: Place, tmp_path: Path) -> None:
    writing = database(tmp_path / "app.db")
    for suffix in ("", "-wal"):
        (closed.top / f"app.db{suffix}").write_bytes((tmp_path / f"app.db{suffix}").read_bytes())
        os.chown(closed.top / f"app.db{suffix}", 1234, 1234)
    writing.close()
    before = [(closed.top / f"app.db{suffix}").read_bytes() for suffix in ("", "-wal")]
    packed = closed.pack()
    assert [(closed.top / f"app.db{suffix}").read_bytes() for suffix in ("", "-wal")] == before
    closed.unpack(packed)
    with sqlite3.connect(closed.folder / "restored" / "app.db") as copy:
        assert copy.execute("SELECT count(*) FROM t").fetchone() == (2000,)


def test_a_damaged_database_fails_the_backup_and_is_named(closed: Place) -> None:
    path = closed.top / "sub" / "app.db"
    path.parent.mkdir()
    os.chown(path.parent, 1234, 1234)
    database(path).close()
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(os.urandom(40_000))
    with pytest.raises(Failed, match=r"sub/app\.db is damaged") as found:
        closed.pack()
    assert found.value.code == "database_damaged"


def test_a_database_whose_copy_is_not_in_order_fails_the_backup(closed: Place) -> None:
    """SQLite copies it without a word: only the check of the copy finds it."""
    path = closed.top / "app.db"
    writing = sqlite3.connect(path, isolation_level=None)
    writing.executescript(
        "CREATE TABLE t (a); INSERT INTO t VALUES (NULL); PRAGMA writable_schema = ON;"
        "UPDATE sqlite_schema SET sql = 'CREATE TABLE t (a NOT NULL)'"
    )
    writing.close()
    os.chown(path, 1234, 1234)
    with pytest.raises(Failed, match=r"app\.db is damaged.*NULL value in t\.a") as found:
        closed.pack()
    assert found.value.code == "database_damaged"


def test_without_vacuum_a_database_is_a_file(closed: Place) -> None:
    """M-93: for `grpc` and `cli` the service itself owns consistency."""
    writing = database(closed.top / "app.db")
    closed.unpack(closed.pack(vacuum=False))
    assert sorted(os.listdir(closed.folder / "restored")) == ["app.db", "app.db-shm", "app.db-wal"]
    writing.close()


def test_a_database_that_is_locked_is_tried_again_later(closed: Place) -> None:
    path = closed.top / "app.db"
    holding = sqlite3.connect(path, isolation_level=None)
    holding.execute("CREATE TABLE t (a)")
    os.chown(path, 1234, 1234)
    holding.execute("BEGIN EXCLUSIVE")
    holding.execute("INSERT INTO t VALUES (1)")
    try:
        with pytest.raises(TryLater, match=r"app\.db was locked") as found:
            closed.pack()
    finally:
        holding.execute("ROLLBACK")
        holding.close()
    assert found.value.code == "database_busy"
    assert closed.pack().vacuumed == ("app.db",)


def test_the_process_that_reads_a_database_has_no_more_rights_than_its_owner() -> None:
    """S10: it is not root, opens no socket (nor a ring, which could), runs and traces no program, has no capability and
    writes no large file; no other table of system calls helps it. Its memory, time and files are bounded, and it ends
    with the archiver."""
    said = subprocess.run([sys.executable, "-c", RIGHTS], capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == [
        *("1234", "1235", "[]", "0" * 16, "0" * 16, "9"),
        *(str(1 << 30), str(4 * 3600), "64", "0"),
        *("EPERM",) * 7,
        "EFBIG",
    ]


RIGHTS = """
import ctypes, errno, mmap, os, platform, resource, signal, socket, struct, tempfile
from holdfast.adapters.archive import vacuum
file, true, libc = tempfile.TemporaryFile(), os.open("/bin/true", os.O_RDONLY), ctypes.CDLL(None, use_errno=True)
os.setgroups([7])
header, caps = struct.pack("II", 0x20080522, 0), ctypes.create_string_buffer(24)
libc.capget(header, caps)
words = struct.unpack("6I", caps.raw)
libc.capset(header, struct.pack("6I", *words[:2], words[1], *words[3:5], words[4]))  # inheritable: all that it may
vacuum._renounce(vacuum.Ask("", 1234, 1235, 1 << 20, False))
print(os.getuid(), os.getgid(), os.getgroups())
status = open("/proc/self/status").read()
print(status.split("CapEff:")[1].split()[0], status.split("CapInh:")[1].split()[0])
number = ctypes.c_int()
libc.prctl(2, ctypes.byref(number), 0, 0, 0)
print(number.value)
for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    print(resource.getrlimit(limit)[1])
def call(function, *words):
    if function(*words) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def narrow():
    # getpid as a program of 32 bits
    if platform.machine() != "x86_64":
        raise OSError(errno.EPERM, "there are none")
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))
    child = os.fork()
    if not child:
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        os._exit(0)
    if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        raise OSError(errno.EPERM, "killed")
for attempt in (
    socket.socket, lambda: os.execv("/bin/true", ["true"]), lambda: os.execve(true, ["true"], {}),
    lambda: call(libc.ptrace, 0, 0, 0, 0), lambda: call(libc.syscall, 425, 1, ctypes.create_string_buffer(120)), narrow,
    lambda: call(libc.syscall, 0x40000000 + 39) if platform.machine() == "x86_64" else call(libc.ptrace, 0, 0, 0, 0),
    lambda: os.truncate(file.fileno(), 1 << 21),
):
    try:
        attempt()
        print("it may")
    except OSError as trouble:
        print(errno.errorcode[trouble.errno])
"""


def test_what_changed_while_the_run_was_under_way_is_read_again_by_the_next_one(place: Place) -> None:
    """Times come from a clock that ticks: a file so young may change once more and keep its times."""
    for folder in ("a", "b"):
        (place.top / folder).mkdir()
    (place.top / "a" / "long").write_bytes(os.urandom(192 << 20))  # the walk enters b after its first packs
    ship, young = place.ship, (place.top / "b" / "young", place.top / "b" / "young.db")

    async def writing(digest: str, content: bytes) -> None:
        if not young[0].exists():
            young[0].write_bytes(b"young")
            with sqlite3.connect(young[1]) as db:
                db.execute("CREATE TABLE t (x)")
        await ship(digest, content)

    place.ship = writing  # type: ignore[method-assign]

    def lines() -> dict[str, bool]:
        """Path → whether an unchanged file would not be read again."""
        text = (place.folder / "home" / "manifest").read_bytes().splitlines()
        return {one["path"]: "seen" in one for one in map(json.loads, text[1:-1]) if one["type"] == "file"}

    packed = place.pack()
    assert lines() == {"a/long": True, "b/young": False, "b/young.db": False} and packed.vacuumed == ("b/young.db",)
    time.sleep(0.1)
    assert place.pack().vacuumed == ("b/young.db",)
    assert lines() == {"a/long": True, "b/young": True, "b/young.db": True}
    assert place.pack().vacuumed == ()
