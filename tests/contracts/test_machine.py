"""What machines say of themselves, and the two things only a real one has: a lock and a host key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.machine.host_key import adopt
from holdfast.adapters.machine.linux import LinuxMachine, container_storage
from holdfast.adapters.machine.lock import DirectoryLock
from holdfast.adapters.machine.memory import MemoryMachine
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import Conflict, HoldfastError
from holdfast.model.report import Facts, clamped
from holdfast.ports.machine import Machine


@pytest.mark.parametrize("kind", ["memory", "linux"])
def test_a_machine_knows_its_size(kind: str, tmp_path: Path) -> None:
    """M-53: CPU, memory, disk; nothing a hub would have to clamp."""
    machine: Machine = MemoryMachine() if kind == "memory" else LinuxMachine(str(tmp_path / "not" / "there" / "yet"))
    facts = machine.facts()
    assert clamped(facts) == facts
    assert facts.containers is None, "nobody counts them, so nobody says 0"
    assert facts.cpu_millicores >= 1000 and 0 < facts.memory_free_bytes <= facts.memory_bytes
    assert 0 < facts.disk_free_bytes <= facts.disk_bytes
    assert machine.arch() == ("x86_64" if kind == "memory" else os.uname().machine)
    assert machine.boot() and machine.boot() == machine.boot(), "the same until the next boot"


@pytest.mark.parametrize("kind", ["memory", "linux"])
def test_a_machine_knows_the_room_on_its_disks(kind: str, tmp_path: Path) -> None:
    """Issue 14: bytes and files, as df counts them, also of a directory that is not there yet."""
    paths = {"data": str(tmp_path / "not" / "there"), "state": str(tmp_path)}
    machine: Machine = MemoryMachine() if kind == "memory" else LinuxMachine(str(tmp_path), disks=paths)
    rooms = machine.disks()
    assert rooms and all(room.used_bytes > 0 and room.free_bytes > 0 and room.path for room in rooms)
    if kind == "linux":
        assert [(room.name, room.path) for room in rooms] == list(paths.items())
        assert rooms[0].device == rooms[1].device == os.stat(tmp_path).st_dev
        about = os.statvfs(tmp_path)
        assert rooms[1].free_files == about.f_favail and rooms[1].used_files == about.f_files - about.f_ffree
        shown = subprocess.run(["df", "-B1", "--output=used", tmp_path], check=True, capture_output=True, text=True)
        assert abs(rooms[1].used_bytes - int(shown.stdout.split()[1])) < 1 << 30


def test_a_disk_that_cannot_be_asked_is_left_out(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    machine = LinuxMachine(str(loop), disks={"data": str(loop), "state": str(tmp_path)})
    assert [room.name for room in machine.disks()] == ["state"], "not the disk of its parent"
    assert machine.facts().disk_bytes == 0


def test_the_storage_of_podman_is_where_its_settings_say(tmp_path: Path) -> None:
    default, broken, own = "/var/lib/containers/storage", tmp_path / "broken", tmp_path / "own"
    broken.write_text('storage = "x"\n')
    own.write_text('[storage]\ndriver = "overlay"\ngraphroot = "/mnt/images"\n')
    absent = str(tmp_path / "absent")
    assert container_storage((absent,)) == container_storage((str(broken),)) == default
    assert container_storage((absent, str(broken), str(own))) == "/mnt/images"
    own.write_text("[storage\n")
    assert container_storage((str(own),)) == default


def test_it_agrees_with_the_system(tmp_path: Path) -> None:
    facts = LinuxMachine(str(tmp_path)).facts()
    total_kib = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    assert facts.memory_bytes == total_kib * 1024
    assert facts.disk_bytes == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize


@pytest.mark.parametrize("content", [None, b"", b"MemTotal: nonsense kB\n", b"\xff\xfe"])
def test_what_it_cannot_tell_is_zero(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "meminfo").write_bytes(content)
    facts = LinuxMachine(str(tmp_path), str(tmp_path / "meminfo")).facts()
    assert (facts.memory_bytes, facts.memory_free_bytes) == (0, 0) and facts != Facts()


def test_one_process_per_state_directory_and_the_kernel_takes_the_lock_back(tmp_path: Path) -> None:
    program = (
        "import sys, signal; from holdfast.adapters.machine.lock import DirectoryLock\n"
        f"held = DirectoryLock({str(tmp_path)!r}); print('held', flush=True); signal.pause()"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(Conflict) as trouble:
            DirectoryLock(str(tmp_path))
        assert trouble.value.exit_code == 5
    finally:
        other.kill()
        other.communicate(timeout=60)
    DirectoryLock(str(tmp_path)).release()


def ssh_keygen(path: Path, *words: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-f", path, *words], check=True, timeout=60)


def test_a_host_key_becomes_the_nodes_key(tmp_path: Path) -> None:
    """design §3: `agent join --host-key FILE`; the file itself is left as it is."""
    ssh_keygen(tmp_path / "host", "-t", "ed25519", "-N", "", "-C", "root@somewhere")
    before = (tmp_path / "host").read_bytes()
    key = adopt(str(tmp_path / "host"), str(tmp_path / "node.key"), PosixDisk(), SystemRandom())
    assert key.line == " ".join((tmp_path / "host.pub").read_text().split()[:2])
    again = key_file.load(str(tmp_path / "node.key"))
    assert again is not None and again.sign(b"x") == key.sign(b"x")
    assert (tmp_path / "host").read_bytes() == before


@pytest.mark.parametrize("words", [("-t", "ecdsa", "-N", ""), ("-t", "ed25519", "-N", "locked")])
def test_another_kind_of_key_or_a_locked_one_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    ssh_keygen(tmp_path / "host", *words)
    with pytest.raises(HoldfastError) as trouble:
        adopt(str(tmp_path / "host"), str(tmp_path / "node.key"), PosixDisk(), SystemRandom())
    assert trouble.value.exit_code == 2 and not (tmp_path / "node.key").exists()
    with pytest.raises(HoldfastError):
        adopt(str(tmp_path / "nowhere"), str(tmp_path / "node.key"), PosixDisk(), SystemRandom())
