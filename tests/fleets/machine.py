"""A whole Debian machine on this one: its own systemd, booted by LXC on a bridge of its own. Needs root.

It is an overlay over the cached base (machine_base.py); what it writes is below `room`. Every mount is in a namespace
of the machine. A machine whose test was killed is removed by the next one: its room has no lock any more.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv4Network
from pathlib import Path

from holdfast.lab import network, podman_files, processes, registry, samples, subnet
from holdfast.lab.blueprint import MARK, REGISTRY_PORT, Blueprint, draw
from holdfast.lab.roster import Seat
from tests.fleets import machine_base
from tests.fleets.machine_base import CACHE, PATH, SOURCE
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome

NAME = "m1"
MACHINES = CACHE / "machines"
CALL_S = 400.0
OUTSIDES = tuple(IPv4Network("198.51.100.0/24").subnets(new_prefix=28))  # TEST-NET-2: networks that are no overlay
CGROUPS = Path("/sys/fs/cgroup")

_CONFIG = """lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/nesting.conf
lxc.uts.name = {name}
lxc.rootfs.path = dir:{root}
lxc.apparmor.profile = unconfined
lxc.cap.drop =
lxc.cgroup.devices.allow = a
lxc.mount.auto = proc:rw sys:rw cgroup:rw
lxc.mount.entry = {data} srv none bind 0 0
lxc.mount.entry = {containers} var/lib/containers none bind,create=dir 0 0
lxc.init.cmd = /sbin/init
lxc.net.0.type = veth
lxc.net.0.link = {bridge}
lxc.net.0.veth.pair = {link}
lxc.net.0.name = eth0
lxc.net.0.hwaddr = {mac}
lxc.net.0.flags = up
lxc.net.0.ipv4.address = {address}/24
lxc.net.0.ipv4.address = {outside}
lxc.net.0.ipv4.gateway = {host}
"""


def _call(words: Sequence[str], given: str | None = None, timeout_s: float = CALL_S) -> Outcome:
    done = subprocess.run(words, input=given or "", capture_output=True, text=True, timeout=timeout_s)
    return Outcome(done.returncode, done.stdout, done.stderr)


class Machine:
    """`run` and `sh` are root inside it. What it says of itself comes from systemd, podman and its disk.

    `outside` is its address in a network that is not the overlay, `visitor` ours in the same network.
    """

    def __init__(self, room: Path, name: str = NAME, on_btrfs: bool = False) -> None:
        self.room, self.name = room, name
        self.id = room.name
        self.root, self._upper, self._data = room / "root", room / "upper", room / "srv"
        seats = [Seat(name, ("hub", "worker", "edge"))]
        used = network.networks_in_use()
        self.blueprint: Blueprint = draw(self.id, subnet.choose(self.id, used), seats)
        self.site = self.blueprint.sites[0]
        self._outside = next(
            one for one in OUTSIDES if not any(one.overlaps(other) for other in used if other.prefixlen)
        )
        self.visitor, self.outside = str(self._outside[1]), str(self._outside[2])
        self._on_btrfs = on_btrfs
        self._base = machine_base.ready()
        self._registry: subprocess.Popen[bytes] | None = None

    # ---- making

    def make(self) -> None:
        """Everything that is there before the first boot. The source is where `git clone` puts it; the environment
        beside it has the requirements, but not Holdfast."""
        for folder in (self._upper, self._data, self.room / "containers", self.room / "lxc"):
            folder.mkdir()
        before = os.umask(0o022)  # directories of the overlay hide those of the base
        try:
            self._fill()
        finally:
            os.umask(before)
        if self._on_btrfs:
            with (self.room / "btrfs").open("wb") as file:
                file.truncate(2 << 30)
            _call(["mkfs.btrfs", "-q", str(self.room / "btrfs")]).ok()

    def _fill(self) -> None:
        machine_base.copy_source(Path(f"{self._upper}{SOURCE}"))
        self._write(f"{SOURCE}/build/uv/.ready", "")  # made from these lock files: the base is keyed by them
        for name, text in podman_files.files(self.blueprint.registry).items():
            self._write(f"{podman_files.FOLDER}/{name}", text)
        self._write("/etc/hostname", f"{self.name}\n")
        self._write("/etc/resolv.conf", "")  # there is no DNS server but its own
        self._write("/root/.config/uv/uv.toml", "offline = true\n")  # `make node` finds all in the cache of the base

    def _write(self, path: str, text: str) -> None:
        """Only before it boots: an overlay does not see what is written beside it."""
        inside = Path(f"{self._upper}{path}")
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_text(text)

    def lay_network(self) -> None:
        network.lay_bridge(self.blueprint)
        length = self._outside.prefixlen
        _call(["ip", "address", "add", f"{self.visitor}/{length}", "dev", self.blueprint.bridge]).ok()

    def serve_images(self) -> None:
        """A registry with the sample images."""
        store = self.room / "registry"
        store.mkdir()
        config = {
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(store)}},
            "http": {"addr": f"{self.blueprint.host_address}:{REGISTRY_PORT}"},
        }
        path = store / "config.json"
        path.write_text(json.dumps(config))
        words = ["docker-registry", "serve", str(path)]
        quiet = subprocess.DEVNULL
        env = {**self._env, "OTEL_TRACES_EXPORTER": "none"}
        self._registry = subprocess.Popen(words, env=env, cwd="/", stdin=quiet, stdout=quiet, stderr=quiet)
        address = f"http://{self.blueprint.registry}/v2/"
        wait_until(lambda: _call(["curl", "-sf", "--noproxy", "*", address]).code == 0, "the registry answers")
        registry.push(self.blueprint, samples.images())

    @property
    def _env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], MARK: self.id}

    # ---- power

    def start(self) -> None:
        config = self.room / "lxc.conf"
        fields = {
            "name": self.name,
            "root": self.root,
            "data": self._data,
            "containers": self.room / "containers",
            "bridge": self.blueprint.bridge,
            "link": self.site.link,
            "mac": self.site.mac,
            "address": self.site.address,
            "host": self.blueprint.host_address,
            "outside": f"{self.outside}/{self._outside.prefixlen}",
        }
        config.write_text(_CONFIG.format(**fields))
        words = ["lxc-start", *self._which, "-f", str(config), "-d", "-o", str(self.room / "lxc.log"), "-l", "INFO"]
        steps = [f"mount -o loop {self.room / 'btrfs'} {self._data}"] if self._on_btrfs else []
        steps.append(f"exec {' '.join(words)}")
        quiet = subprocess.DEVNULL
        # Its own files only: LXC keeps them for as long as the machine runs.
        command = machine_base.in_overlay(steps, self.root, self._base, self._upper)
        subprocess.run(command, check=True, stdin=quiet, stdout=quiet, timeout=60, env=self._env)
        self._await_boot()

    @property
    def _which(self) -> list[str]:
        return _lxc(self.room)

    def _pid(self) -> str:
        return _call(["lxc-info", *self._which, "-p", "-H"]).out.strip()

    def _await_boot(self) -> None:
        def is_up() -> bool:
            return self.run("systemctl", "is-system-running").out.strip() in ("running", "degraded")

        wait_until(is_up, lambda: f"the machine has booted: {self.run('systemctl', 'list-jobs')}")

    def reboot(self) -> None:
        before = self._pid()
        _call(["lxc-stop", *self._which, "-r"]).ok()
        wait_until(lambda: self._pid() not in ("", before), "the machine has another init process")
        self._await_boot()

    def cut_power(self) -> None:
        _call(["lxc-stop", *self._which, "-k"]).ok()
        self.start()

    def close(self) -> None:
        if self._registry is not None:
            self._registry.terminate()
            self._registry.wait()

    # ---- inside

    def run(self, *words: str, given: str | None = None, timeout_s: float = CALL_S) -> Outcome:
        return _call([*self.entering, *words], given, timeout_s)

    @property
    def entering(self) -> list[str]:
        """Before the words of a command that root runs inside."""
        return ["lxc-attach", *self._which, "--clear-env", "-v", f"PATH={PATH}", "-v", "HOME=/root", "--"]

    def sh(self, text: str) -> str:
        return self.run("sh", "-c", text).ok().out

    def python(self, text: str, *words: str) -> str:
        return self.run("python3", "-", *words, given=text).ok().out

    def podman(self, *words: str) -> str:
        return self.run("podman", *words).ok().out

    def build(self, name: str, text: str) -> str:
        """An image in the registry, made by a podman store that the agent does not use."""
        target = f"{self.blueprint.registry}/{name}"
        own = "podman --root /var/lib/containers/workshop --runroot /run/workshop"
        self.run("sh", "-c", "mkdir -p /root/image && cat > /root/image/Containerfile", given=text).ok()
        self.sh(f"{own} build --quiet --tls-verify=false --tag {target} /root/image")
        self.sh(f"{own} push --quiet --tls-verify=false {target}")
        return target


# ---- rooms


def _lxc(room: Path) -> list[str]:
    return ["-n", f"hf{room.name}", "-P", str(room / "lxc")]


@contextmanager
def _locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Whether the lock is ours. A killed process holds none."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def traces(room: Path) -> list[str]:
    """What is left of a machine."""
    blueprint = Blueprint(room.name, "", ())
    found = [f"process {pid}" for pid in processes.members(blueprint.mark, None, str(room))] if room.exists() else []
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if str(room) in line]
    found += [f"link {name}" for name in os.listdir(network.LINKS) if name.startswith(blueprint.bridge)]
    return [*found, *map(str, _cgroups(room)), *([str(room)] if room.exists() else [])]


def _cgroups(room: Path) -> list[Path]:
    return [*CGROUPS.glob(f"lxc.*.hf{room.name}*"), *CGROUPS.glob(f"*/lxc.*.hf{room.name}*")]


def remove(room: Path) -> None:
    """Also of a machine that another process made and left."""
    blueprint = Blueprint(room.name, "", ())
    _call(["lxc-stop", *_lxc(room), "-k"])
    processes.end(lambda: processes.members(blueprint.mark, None, str(room)))
    network.remove(blueprint)
    for top in (*_cgroups(room), *CGROUPS.glob("*/lxc.pivot")):  # the last is for all: LXC makes it when it needs it
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):  # the kernel may have been faster
                os.rmdir(folder)
    shutil.rmtree(room)


def sweep() -> list[str]:
    """Remove machines of killed tests; answers their ids. Call it with the lock of all rooms."""
    swept = []
    for room in sorted(MACHINES.iterdir()) if MACHINES.is_dir() else []:
        with _locked(room / "lock", wait=False) as ours:
            if ours:
                remove(room)
                swept.append(room.name)
    return swept


@contextmanager
def made(name: str = NAME, on_btrfs: bool = False) -> Iterator[Machine]:
    """A machine with a network and a disk, not started; removed afterwards without a trace."""
    machine_base.ready()
    MACHINES.mkdir(exist_ok=True)
    room = MACHINES / os.urandom(4).hex()
    with ExitStack() as held:
        # Names and addresses are chosen and taken by one process at a time.
        with _locked(CACHE / "machines.lock"):
            sweep()
            room.mkdir()
            held.enter_context(_locked(room / "lock"))
            held.callback(remove, room)
            machine = Machine(room, name, on_btrfs)
            machine.lay_network()
        held.callback(machine.close)
        machine.make()
        yield machine
    assert not traces(room), traces(room)


@contextmanager
def booted(name: str = NAME, on_btrfs: bool = False) -> Iterator[Machine]:
    with made(name, on_btrfs) as machine:
        machine.serve_images()
        machine.start()
        yield machine
