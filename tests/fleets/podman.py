"""A podman of its own for a test: store, network, sockets and locks in a throw-away folder and in namespaces that end
with it. Several at once do not know of each other; the machine's own podman is never asked."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.adapters.process.process import known
from holdfast.lab import cgroups
from tests.fleets.waiting import wait_until

IMAGE = "localhost/busybox:1"
TOOLS = (
    "sh",
    "sleep",
    "echo",
    "cat",
    "nc",
    "env",
    "kill",
    "ls",
    "httpd",
    "touch",
    "wget",
    "nslookup",
    "ps",
    "hostname",
)

_ID = re.compile(r"\b[0-9a-f]{64}\b")

_CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
log_driver = "k8s-file"

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{run}/libpod"

[network]
network_backend = "netavark"
network_config_dir = "{root}/networks"
"""

_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{root}/store"
runroot = "{run}/storage"
"""

_REGISTRIES = """\
unqualified-search-registries = []

[[registry]]
location = "127.0.0.1"
insecure = true
"""

# Podman's locks are in /dev/shm, its addresses in /run/containers, its network namespaces in /run/netns, whatever its
# configuration says: here each is nobody else's.
_HOLD = """
set -e
mount -t tmpfs -o mode=1777,size=16m tmpfs /dev/shm
mkdir -p /run/netns /run/containers
mount -t tmpfs -o size=1m tmpfs /run/netns
mount -t tmpfs -o size=4m tmpfs /run/containers
ip link set lo up
echo ready
exec </dev/null >/dev/null 2>&1
exec sleep infinity
"""


class ThrowAway:
    """`command` starts podman inside; `environ` is what it must be told. Container pids are this machine's own."""

    def __init__(self, root: Path, holder: int) -> None:
        self.root = root
        self.run_dir = str(root / "run")
        self.holder = holder
        self.inside = ["nsenter", "-t", str(holder), "-n", "-m", "--"]
        self.command = [*self.inside, "podman"]
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "CONTAINERS_CONF": str(root / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(root / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(root / "registries.conf"),
        }

    def podman(self, *words: str, data: bytes | None = None) -> str:
        """Podman's own command line: the second witness of every test."""
        done = subprocess.run(
            [*self.command, *words], env=self.environ, input=data, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"podman {' '.join(words)}: {done.stderr.decode()}"
        return done.stdout.decode()

    def inspect(self, name: str) -> dict[str, object]:
        found: list[dict[str, object]] = json.loads(self.podman("inspect", "--type", "container", name))
        return found[0]

    def spawn(self, *words: str) -> subprocess.Popen[bytes]:
        """Some other program on that node."""
        return subprocess.Popen(
            [*self.inside, *words], env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def await_listener(self, port: int) -> None:
        """Until somebody listens there, as the node's own kernel tells."""
        wanted = f":{port:04X} "
        table = Path(f"/proc/{self.holder}/net/tcp")

        def listening() -> bool:
            return any(wanted in line[:22] and " 0A " in line for line in table.read_text().splitlines())

        wait_until(listening, f"a process listens at {port}")

    def load_busybox(self) -> None:
        self.podman("import", "--change", 'CMD=["sleep","1000"]', "-", IMAGE, data=busybox())

    def end(self) -> None:
        """Containers first, then whoever still lives in the namespaces, then the folder."""
        with suppress(subprocess.TimeoutExpired, OSError, AssertionError):
            self.podman("rm", "--all", "--force", "--time", "0")
        # Held open: the kernel gives the number of a namespace that is gone to the next one, of another test perhaps.
        with open(f"/proc/{self.holder}/ns/mnt", "rb") as held:
            space = os.readlink(f"/proc/self/fd/{held.fileno()}")
            wait_until(lambda: not _kill(_members(space)), "every process of the node is gone")
        events = self.root / "run" / "libpod" / "events" / "events.log"
        ids = set(_ID.findall(events.read_text())) if events.exists() else set()
        cgroups.remove(sorted(ids))  # the empty groups of those that lost their supervisor
        for path in self.root.rglob("merged"):
            subprocess.run(["umount", "-l", str(path)], capture_output=True, check=False)
        shutil.rmtree(self.root, ignore_errors=True)


@contextmanager
def throw_away() -> Iterator[ThrowAway]:
    root = Path(tempfile.mkdtemp(prefix="holdfast-podman-"))
    for name, text in (
        ("containers.conf", _CONTAINERS),
        ("storage.conf", _STORAGE),
        ("registries.conf", _REGISTRIES),
    ):
        (root / name).write_text(text.format(root=root, run=root / "run"))
    (root / "run").mkdir()
    outer = subprocess.Popen(
        ["unshare", "--net", "--mount", "--propagation=private", "--fork", "--kill-child", "sh", "-c", _HOLD],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert outer.stdout is not None
    with outer.stdout:
        assert outer.stdout.readline() == b"ready\n", "no namespaces: run as root"
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    node = ThrowAway(root, int(children[0]))
    try:
        yield node
    finally:
        node.end()
        outer.wait(60)


def busybox() -> bytes:
    """A root file system with one static program and its names, as a tar."""
    import io
    import tarfile

    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for folder in ("bin", "tmp", "data", "etc", "run"):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(member)
        program = Path("/bin/busybox").read_bytes()
        member = tarfile.TarInfo("bin/busybox")
        member.size, member.mode = len(program), 0o755
        archive.addfile(member, io.BytesIO(program))
        for tool in TOOLS:
            member = tarfile.TarInfo(f"bin/{tool}")
            member.type, member.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(member)
    return target.getvalue()


def _members(space: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and os.readlink(f"/proc/{name}/ns/mnt") == space and known(int(name)):
                found.append(int(name))
    return found


def _kill(pids: Sequence[int]) -> Sequence[int]:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids
