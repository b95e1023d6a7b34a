"""What goes wrong around an archive ends in an error with a reason or in a whole archive, and the next run goes on."""

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zstandard

from holdfast.adapters.archive import target
from holdfast.adapters.archive.process import COMMAND, ProcessArchiver
from holdfast.adapters.archive.sealed_file import SealedFile
from holdfast.adapters.sealing import age_stream
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.errors import Failed, HoldfastError
from holdfast.model.archive import PART_BYTES
from holdfast.ports.archive import PackJob
from tests.fleets.archives import Place, facts, process_place
from tests.fleets.counts import SOAK
from tests.fleets.waiting import wait_until

CALLS = ("write", "pwrite64", "rename", "unlink", "mkdir", "openat")
STEPS: dict[str, range] = {
    call: range(1, 400, 1 if call != "openat" else 25) if SOAK else range(1, 40, 13) for call in CALLS
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = process_place(tmp_path)
    chance = random.Random(3)
    place.write({f"d{n % 4}/f{n}": chance.randbytes(chance.randrange(1, 90_000)) for n in range(30)})
    place.write({"long": chance.randbytes(34 << 20)})
    return place


def killing(call: str, number: int) -> ProcessArchiver:
    """kill -9 at the n-th system call of this kind."""
    inject = f"inject={call}:signal=SIGKILL:when={number}"
    return ProcessArchiver(("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject, *COMMAND))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", CALLS)
def test_a_pack_that_is_killed_goes_on_and_is_whole(place: Place, call: str) -> None:
    """R02 for archives: no success that is not one, and the next run continues."""
    whole, killed = place.archiver, 0
    for number in STEPS[call]:
        place.archiver = killing(call, number)
        try:
            packed = place.pack()
        except Failed as trouble:
            killed += 1
            assert trouble.code == "archiver_died", trouble
            place.archiver = whole
            packed = place.pack()
        name = f"restored-{number}"
        place.archiver = whole
        place.unpack(packed, name)
        assert facts(place.top) == facts(place.folder / name)
        subprocess.run(["rm", "-rf", place.folder / name], check=True, timeout=60)
        (place.top / "long").touch()  # something to do for the next one
    assert killed or call in ("unlink", "mkdir"), "the test bites"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", ["pwrite64", "openat", "mkdir"])
def test_an_unpack_that_is_killed_says_so(place: Place, call: str) -> None:
    packed, whole = place.pack(), place.archiver
    for number in (1, 20) if not SOAK else range(1, 60):
        place.archiver = killing(call, number)
        name = f"killed-{number}"
        try:
            place.unpack(packed, name)
            assert facts(place.top) == facts(place.folder / name)
        except Failed as trouble:
            assert trouble.code == "archiver_died"
        place.archiver = whole
        subprocess.run(["rm", "-rf", place.folder / name], check=True, timeout=60)


def test_an_archiver_that_ends_before_it_is_looked_at_is_said_to_have_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio collects an ended process in a thread of its own: then its number has no process any more."""
    open_handle = os.pidfd_open

    def late(pid: int) -> int:
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the process was collected")
        return open_handle(pid)

    monkeypatch.setattr(os, "pidfd_open", late)
    place.archiver = ProcessArchiver(("sh", "-c", "echo no memory >&2; exit 3"))
    with pytest.raises(Failed, match=r"ended with 3 .*no memory") as found:
        place.pack()
    assert found.value.code == "archiver_died"


@contextmanager
def small_disk(path: Path, size: str = "8m", more: str = "") -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}{more}", "none", path], check=True, timeout=60)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True, timeout=60)


def test_r05_a_full_disk_of_the_spool_fails_the_backup_and_no_more(place: Place) -> None:
    before = facts(place.top)
    with small_disk(place.folder / "home"):
        with pytest.raises(Failed, match="No space left") as found:
            place.pack()
        assert found.value.code == "no_space" and str(place.folder / "home") in found.value.message
        assert not list((place.folder / "home").rglob("out/*")), "it takes the last room from no other program"
        subprocess.run(["mount", "-o", "remount,size=200m", place.folder / "home"], check=True, timeout=60)
        packed = place.pack()
    assert facts(place.top) == before
    place.unpack(packed)
    assert facts(place.folder / "restored") == before


@pytest.mark.parametrize("more", ["", ",nr_inodes=20"])
def test_r05_a_restore_looks_for_room_first(place: Place, more: str) -> None:
    packed = place.pack()
    with small_disk(place.folder / "restored", "8m" if not more else "200m", more) as disk:
        with pytest.raises(Failed, match="and the archive") as found:
            place.unpack(packed)
        assert found.value.code == "no_space" and os.listdir(disk) == []


def test_r05_a_disk_that_fills_up_meanwhile_fails_the_restore(place: Place) -> None:
    packed = place.pack()
    with small_disk(place.folder / "restored", "100m") as disk:

        async def fetch(digest: str) -> bytes:
            if not (disk.parent / "full").exists():
                (disk.parent / "full").touch()
                with open(disk / "d0" / "other", "wb") as other:
                    other.truncate(0)
                    os.posix_fallocate(other.fileno(), 0, 90 << 20)
            return place.store[digest]

        with pytest.raises(Failed, match="No space left"):
            place.unpack(packed, fetch=fetch)


def children() -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if b"holdfast.adapters.archive.child" in file.read():
                    found.append(int(name))
        except (OSError, ValueError):
            continue
    return found


def of_home(home: str) -> list[int]:
    """Archiver processes that work in this directory; other tests have their own."""
    return [pid for pid in children() if any(home in link for link in _links(pid))]


def _links(pid: int) -> list[str]:
    try:
        return [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def test_a_cancelled_job_leaves_no_process(place: Place) -> None:
    async def hang(digest: str, content: bytes) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        task = asyncio.create_task(place.archiver.pack(place.job(), hang, lambda progress: None))
        while not of_home(str(place.folder)):
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert of_home(str(place.folder)) == []


AGENT = """
import asyncio, sys, msgspec
from holdfast.adapters.archive.process import ProcessArchiver
from holdfast.ports.archive import PackJob
async def hang(digest, content):
    print("shipping", flush=True)
    await asyncio.Event().wait()
asyncio.run(ProcessArchiver().pack(msgspec.json.decode(sys.argv[1], type=PackJob), hang, lambda progress: None))
"""


def test_the_process_ends_with_its_agent(place: Place) -> None:
    job: PackJob = place.job()
    agent = subprocess.Popen([sys.executable, "-c", AGENT, msgspec.json.encode(job).decode()], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None and agent.stdout.readline() == b"shipping\n"
        assert of_home(str(place.folder))
    finally:
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        if agent.stdout is not None:
            agent.stdout.close()
    wait_until(lambda: of_home(str(place.folder)) == [], "the process ends")
    place.unpack(place.pack())
    assert facts(place.top) == facts(place.folder / "restored")


def test_the_process_yields_to_others(place: Place) -> None:
    nices: list[int] = []

    async def ship(digest: str, content: bytes) -> None:
        nices.extend(os.getpriority(os.PRIO_PROCESS, pid) for pid in of_home(str(place.folder)))
        place.store[digest] = content

    asyncio.run(place.archiver.pack(place.job(), ship, lambda progress: None))
    assert nices and min(nices) >= 10


def test_a_restore_is_on_the_disk_before_it_is_said_to_be_done(place: Place, tmp_path: Path) -> None:
    """After a power cut there is what was exchanged: everything is flushed, and nothing is written after that."""
    packed, log = place.pack(), tmp_path / "calls"
    calls = "trace=syncfs,pwrite64,mkdirat,linkat,symlinkat,fchmod,fchown,utimensat,fsetxattr"
    place.archiver = ProcessArchiver(("strace", "-f", "-qq", "-o", str(log), "-e", calls, *COMMAND))
    place.unpack(packed)
    found = [line.split("(")[0].split()[-1] for line in log.read_text().splitlines() if " = 0" in line or "= " in line]
    assert found.count("syncfs") >= 1 and found[-1] == "syncfs" and "utimensat" in found, found[-5:]


def test_a_flush_that_fails_before_the_end_fails_the_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R06: the kernel tells it once; the last flush says that all is well."""
    answers = [OSError(5, "Input/output error")]
    monkeypatch.setattr(target, "EARLY_S", 0.01)
    monkeypatch.setattr(target.Target, "flush", lambda self: _raised(answers))
    before, top = os.umask(0o22), os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Input/output"), target.Target(top, PART_BYTES).flushed():
            wait_until(lambda: not answers, "it was flushed once")
    finally:
        os.umask(before)
        os.close(top)


def _raised(waiting: list[OSError]) -> None:
    if waiting:
        raise waiting.pop()


def test_what_is_being_unpacked_is_closed_to_others_until_the_end(place: Place) -> None:
    place.top.chmod(0o755)
    packed, modes = place.pack(), list[int]()

    async def fetch(digest: str) -> bytes:
        modes.append((place.folder / "restored").stat().st_mode & 0o777)
        return place.store[digest]

    (place.folder / "restored").mkdir(mode=0o755)
    place.unpack(packed, fetch=fetch)
    assert modes and set(modes) == {0o700} and (place.folder / "restored").stat().st_mode & 0o777 == 0o755


def test_a_stored_manifest_has_no_numbers_of_this_nodes_disk(place: Place) -> None:
    """And a stored object has a checksum that stock tools compare."""
    time.sleep(0.1)
    packed = place.pack()
    opened = age_stream.Identity(place.pair.identity)
    plain = b"".join(opened.opened(packed.manifest))
    text = zstandard.ZstdDecompressor().decompressobj().decompress(plain)
    assert b'"path":"long"' in text and b'"seen"' not in text
    assert b'"seen"' in (place.folder / "home" / "manifest").read_bytes(), "the node keeps them for itself"
    for pack in packed.packs:
        first = next(iter(opened.opened(place.store[pack.digest])))
        assert zstandard.get_frame_parameters(first).has_checksum


def test_progress_is_told(place: Place) -> None:
    told: list[int] = []

    async def slow(digest: str, content: bytes) -> None:
        await asyncio.sleep(0.6)

    place.write({f"more{n}": os.urandom(9 << 20) for n in range(9)})
    asyncio.run(place.archiver.pack(place.job(), slow, lambda progress: told.append(progress.size_bytes)))
    assert told and told == sorted(told)


def test_the_identity_is_in_no_command_line_and_no_file(place: Place) -> None:
    """S13: it comes on stdin."""
    packed = place.pack()
    seen: list[bytes] = []
    secret = place.pair.identity.encode()

    async def fetch(digest: str) -> bytes:
        for pid in of_home(str(place.folder)):
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    seen.append(file.read())
        seen.extend(path.read_bytes() for path in (place.folder / "restore-home").rglob("*") if path.is_file())
        return place.store[digest]

    place.unpack(packed, fetch=fetch)
    assert seen and not any(secret in text for text in seen)


def test_what_lies_on_a_target_names_no_file_and_shows_no_content(place: Place) -> None:
    place.write({"canary-name/canary-file": b"canary-content" * 100})
    place.pack()
    everything = b"".join(place.store.values())
    assert b"canary" not in everything


def test_an_error_has_a_code_and_a_remedy(place: Place) -> None:
    with pytest.raises(HoldfastError) as found:
        place.pack(top=str(place.folder / "missing"))
    assert found.value.remedy and found.value.code == "archive_unreadable"


def test_a_sealed_object_is_freed_at_once(tmp_path: Path) -> None:
    """Each has a buffer of 1 MiB: waiting for the garbage collector, a file of 4 GiB took 178 MiB of memory."""
    gc.disable()
    try:
        file = SealedFile(str(tmp_path), "x", AgeIdentities().fresh().recipient)
        file.finish()
        left = weakref.ref(file)
        del file
        assert left() is None
    finally:
        gc.enable()
