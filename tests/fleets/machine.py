"""A whole Debian machine on this one: its own systemd, booted by LXC on a bridge of its own. Needs root.

The base (debootstrap and packages) is cached and copied for each machine. Packages come from where this machine gets
its own: its apt and pip settings are mounted while they are needed, and are not part of the machine.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.lab import network, podman_files, registry, samples, subnet
from holdfast.lab.blueprint import REGISTRY_PORT, Blueprint, draw
from holdfast.lab.roster import Seat
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome

NAME = "m1"
RELEASE = "bookworm"
BOOTED = ("systemd", "systemd-sysv", "dbus", "iproute2", "ca-certificates", "python3", "python3-venv", "make")
PACKAGES = ("podman", "busybox-static", "dnsmasq-base", "runc", "netavark", "aardvark-dns", "iptables", "procps")
PROGRAMS = {"lxc-start": "lxc", "debootstrap": "debootstrap", "docker-registry": "docker-registry"}
SOURCE = "/opt/holdfast"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs")
BUILD_S = 1800.0
CALL_S = 400.0
OUTSIDE, OUTSIDE_PREFIX = "198.51.100", 24  # TEST-NET-2, on the same bridge: a network that is not the overlay

_CONFIG = """lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/nesting.conf
lxc.uts.name = {name}
lxc.rootfs.path = dir:{root}
lxc.apparmor.profile = unconfined
lxc.cap.drop =
lxc.cgroup.devices.allow = a
lxc.mount.auto = proc:rw sys:rw cgroup:rw
lxc.init.cmd = /sbin/init
lxc.net.0.type = veth
lxc.net.0.link = {bridge}
lxc.net.0.veth.pair = {link}
lxc.net.0.name = eth0
lxc.net.0.hwaddr = {mac}
lxc.net.0.flags = up
lxc.net.0.ipv4.address = {address}/24
lxc.net.0.ipv4.address = {outside}.11/{outside_prefix}
lxc.net.0.ipv4.gateway = {host}
"""


def missing_packages() -> list[str]:
    return [package for program, package in PROGRAMS.items() if shutil.which(program) is None]


def _call(words: Sequence[str], given: str | None = None, timeout_s: float = CALL_S) -> Outcome:
    done = subprocess.run(words, input=given or "", capture_output=True, text=True, timeout=timeout_s)
    return Outcome(done.returncode, done.stdout, done.stderr)


def _in_root(root: Path, text: str, mounts: Mapping[str, str]) -> None:
    """A shell script in a directory with a whole system. `mounts` are paths here and there, for its time."""
    steps = [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
    for path, there in mounts.items():
        inside = Path(f"{root}{there}")
        (inside if Path(path).is_dir() else inside.parent).mkdir(parents=True, exist_ok=True)
        if not inside.exists():
            inside.touch()
        steps.append(f"mount --bind {path} {inside}")
    settings = [f"{key}={value}" for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_"))]
    env = ["env", "-i", f"PATH={PATH}", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "UV_LINK_MODE=copy", *settings]
    steps.append(f"exec {shlex.join([*env, 'chroot', str(root), 'sh', '-ec', text])}")
    _call(["unshare", "--mount", "sh", "-c", " && ".join(steps)], timeout_s=BUILD_S).ok()


def base(folder: Path) -> Path:
    """Made once; again if the lists of packages change."""
    root, stamp = folder / "base", folder / "base.json"
    wanted = json.dumps([RELEASE, BOOTED, PACKAGES])
    if stamp.exists() and stamp.read_text() == wanted:
        return root
    stamp.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["debootstrap", "--variant=minbase", f"--include={','.join(BOOTED)}", RELEASE, str(root)]
    _call(words, timeout_s=BUILD_S).ok()
    install = f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {' '.join(PACKAGES)}"
    _in_root(root, f"{install} && apt-get clean", _same("/etc/apt", "/usr/share/keyrings", *NETWORK))
    stamp.write_text(wanted)
    return root


def _same(*paths: str) -> dict[str, str]:
    return {path: path for path in paths if os.path.exists(path)}


def _pip_settings() -> dict[str, str]:
    """Files with pip's settings, and directories that these name."""
    said = _call(["pip", "config", "list"]).out.replace("'", " ").replace("=", " ").split()
    named = [word.removeprefix("file://").removesuffix("/simple") for word in said]
    folders = [path for path in named if path.startswith("/") and os.path.isdir(path)]
    return _same("/etc/pip.conf", "/root/.config/pip", "/root/.config/uv", *NETWORK, *folders)


class Machine:
    """`run` and `sh` are root inside it. What it says of itself comes from systemd, podman and its disk."""

    def __init__(self, folder: Path, room: Path) -> None:
        self._folder, self._room = folder, room
        self.root = room / "root"
        lab_id = os.urandom(4).hex()
        seats = [Seat(NAME, ("hub", "worker", "edge"))]
        self.blueprint: Blueprint = draw(lab_id, subnet.choose(lab_id, network.networks_in_use()), seats)
        self.site = self.blueprint.sites[0]
        self._registry: subprocess.Popen[bytes] | None = None
        self._loop: Path | None = None

    # ---- making

    def make(self) -> None:
        """As docs/guides/nodes.md installs a node: the source in /opt, `make node`, links, units."""
        _call(["cp", "-a", "--reflink=auto", str(base(self._folder)), str(self.root)], timeout_s=BUILD_S).ok()
        listed = _call(["git", "-C", samples.ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).ok()
        home = Path(f"{self.root}{SOURCE}")
        home.mkdir(parents=True)
        words = f"tar -C {samples.ROOT} --null -T - -c | tar -C {home} -x --no-same-owner"
        _call(["sh", "-c", words], given=listed.out).ok()
        cache = self._folder / "cache"
        cache.mkdir(exist_ok=True)
        _in_root(self.root, f"cd {SOURCE} && make node", {**_pip_settings(), str(cache): "/root/.cache"})
        links = f"{SOURCE}/.venv/bin/holdfast {SOURCE}/.venv/bin/holdfast-proxy"
        units = f"cp {SOURCE}/deploy/systemd/holdfast-* /etc/systemd/system/"
        _in_root(self.root, f"ln -s {links} /usr/local/bin/ && {units}", {})
        self._configure_podman()
        (self.root / "etc/resolv.conf").write_text("")  # there is no DNS server but its own

    def _configure_podman(self) -> None:
        for name, text in podman_files.files(self.blueprint.registry).items():
            path = self.root / podman_files.FOLDER.lstrip("/") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def put_data_on_btrfs(self) -> None:
        image, place = self._room / "btrfs", self._room / "srv"
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(2 << 30)
        _call(["mkfs.btrfs", "-q", str(image)]).ok()
        _call(["mount", "-o", "loop", str(image), str(place)]).ok()
        self._loop = place

    def begin(self) -> None:
        """Bridge, registry with the sample images, and the first boot."""
        network.lay_bridge(self.blueprint)
        _call(["ip", "address", "add", f"{OUTSIDE}.1/{OUTSIDE_PREFIX}", "dev", self.blueprint.bridge]).ok()
        self._serve_images()
        self.start()

    def _serve_images(self) -> None:
        store = self._room / "registry"
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
        env = {"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"}
        quiet = subprocess.DEVNULL
        self._registry = subprocess.Popen(words, env=env, cwd="/", stdin=quiet, stdout=quiet, stderr=quiet)
        address = f"http://{self.blueprint.registry}/v2/"
        wait_until(lambda: _call(["curl", "-sf", "--noproxy", "*", address]).code == 0, "the registry answers")
        registry.push(self.blueprint, samples.images())

    # ---- power

    def start(self) -> None:
        config = self._room / "lxc.conf"
        fields = {
            "name": NAME,
            "root": self.root,
            "bridge": self.blueprint.bridge,
            "link": self.site.link,
            "mac": self.site.mac,
            "address": self.site.address,
            "host": self.blueprint.host_address,
            "outside": OUTSIDE,
            "outside_prefix": OUTSIDE_PREFIX,
        }
        text = _CONFIG.format(**fields)
        if self._loop is not None:
            text += f"lxc.mount.entry = {self._loop} srv none bind 0 0\n"
        config.write_text(text)
        (self._room / "lxc").mkdir(exist_ok=True)
        words = ["lxc-start", *self._which, "-f", str(config), "-d", "-o", str(self._room / "lxc.log"), "-l", "INFO"]
        # Its own files only: LXC keeps them for as long as the machine runs.
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)
        self._await_boot()

    @property
    def _which(self) -> list[str]:
        return ["-n", NAME, "-P", str(self._room / "lxc")]

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

    def remove(self) -> list[str]:
        """Answers what is left of it."""
        if self._pid():
            _call(["lxc-stop", *self._which, "-k"])
        if self._registry is not None:
            self._registry.terminate()
            self._registry.wait()
        if self._loop is not None:
            _call(["umount", str(self._loop)])
        with suppress(Exception):
            network.remove(self.blueprint)
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(self._room) in line]
        links = [name for name in os.listdir("/sys/class/net") if name.startswith(self.blueprint.bridge)]
        return [*mounts, *links, *([f"init {self._pid()}"] if self._pid() else [])]

    # ---- inside

    def run(self, *words: str, given: str | None = None, timeout_s: float = CALL_S) -> Outcome:
        inside = ["lxc-attach", *self._which, "--clear-env", "-v", f"PATH={PATH}", "-v", "HOME=/root", "--", *words]
        return _call(inside, given, timeout_s)

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


@contextmanager
def booted(folder: Path, room: Path, on_btrfs: bool) -> Iterator[Machine]:
    machine = Machine(folder, room)
    try:
        machine.make()
        if on_btrfs:
            machine.put_data_on_btrfs()
        machine.begin()
        yield machine
    finally:
        left = machine.remove()
        assert not left, left
