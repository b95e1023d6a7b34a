"""What machines of the suite are made of: a Debian and an environment with Holdfast's requirements, cached by recipe.

    python -m tests.fleets.machine_base

builds what is missing, one line for each part with its time; `make setup` does that. Needs root, Debian's lxc and
debootstrap. A part is built beside its place and renamed when it is complete, so that a half of it is never used, and
it is never changed afterwards: machines see it through an overlay. Packages come from where this machine gets its own:
its apt and pip settings are mounted while they are needed. Nothing else uses the cache: it may be removed at any time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from inspect import getsource
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
CACHE = Path("/var/cache/holdfast-test")
SOURCE = "/opt/holdfast"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RELEASE = "bookworm"
BOOTED = ("systemd", "systemd-sysv", "dbus", "iproute2", "ca-certificates", "python3", "python3-venv", "make")
PACKAGES = ("podman", "busybox-static", "dnsmasq-base", "runc", "netavark", "aardvark-dns", "iptables", "procps")
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-uv.lock")
PROGRAMS = {"lxc-start": "lxc", "debootstrap": "debootstrap"}
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs")
BUILD_S = 1800.0

BOOTSTRAP = ("debootstrap", "--variant=minbase", f"--include={','.join(BOOTED)}", RELEASE)
INSTALL = f"""apt-get update -qq
apt-get install -y -qq --no-install-recommends {" ".join(PACKAGES)}
apt-get clean
rm -rf /var/lib/apt/lists/* /etc/machine-id && touch /etc/machine-id"""
# As docs/guides/nodes.md installs a node; then without the source, which each machine gets anew.
NODE = f"""cd {SOURCE} && make node
build/uv/bin/uv pip uninstall --quiet --python .venv/bin/python holdfast
find . -mindepth 1 -maxdepth 1 ! -name .venv ! -name build -exec rm -rf {{}} +
rm -rf build/dist"""


class Unfit(Exception):
    """This machine cannot build a base; the message says what it lacks."""


def _call(words: Sequence[str]) -> None:
    """Also programs that outlive a killed build hold its lock: they inherit the file."""
    quiet = subprocess.DEVNULL
    done = subprocess.run(words, stdin=quiet, capture_output=True, text=True, timeout=BUILD_S, close_fds=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise Unfit("\n".join([f"{shlex.join(words)[:200]} failed ({done.returncode}):", *said[-15:]]))


def in_overlay(steps: Sequence[str], root: Path, lower: Sequence[Path], upper: Path) -> list[str]:
    """A command that does the steps where `root` shows the lower directories, with changes in `upper`. The mounts are
    in a namespace of their own: they end with its last process, also of a killed test."""
    work = upper.with_name(f"{upper.name}.work")
    for path in (root, upper, work):
        path.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}"
    return ["unshare", "--mount", "sh", "-ec", "\n".join([f"mount -t overlay overlay -o {options} {root}", *steps])]


def _chroot(root: Path, text: str, mounts: Mapping[str, str]) -> list[str]:
    """Steps that run a script in a directory with a whole system. `mounts` are paths here and there."""
    steps = [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
    for path, there in mounts.items():
        inside = f"{root}{there}"
        made = f"mkdir -p {inside}" if os.path.isdir(path) else f"mkdir -p {os.path.dirname(inside)} && touch {inside}"
        steps += [made, f"mount --bind {path} {inside}"]
    settings = [f"{key}={value}" for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_"))]
    env = ["env", "-i", f"PATH={PATH}", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "UV_LINK_MODE=copy", *settings]
    return [*steps, f"exec {shlex.join([*env, 'chroot', str(root), 'sh', '-ec', text])}"]


def _same(*paths: str) -> dict[str, str]:
    return {path: path for path in paths if os.path.exists(path)}


def _pip_settings() -> dict[str, str]:
    """Files with pip's settings, and directories that these name."""
    said = subprocess.run(["pip", "config", "list"], capture_output=True, text=True).stdout
    named = [word.removeprefix("file://").removesuffix("/simple") for word in said.replace("'", " ").split()]
    folders = [path for path in named if path.startswith("/") and os.path.isdir(path)]
    return _same("/etc/pip.conf", "/root/.config/pip", "/root/.config/uv", *NETWORK, *folders)


# ---- the two parts


def system() -> Path:
    return CACHE / f"debian-{_digest(*BOOTSTRAP, INSTALL, getsource(_build_system), getsource(_chroot))}"


def node() -> Path:
    locks = [(CHECKOUT / name).read_text() for name in LOCKS]
    return CACHE / f"node-{_digest(system().name, NODE, getsource(_build_node), *locks)}"


def _digest(*texts: str) -> str:
    return sha256(json.dumps(texts).encode()).hexdigest()[:16]


def _build_system(draft: Path) -> None:
    _call(["unshare", "--mount", *BOOTSTRAP, str(draft)])  # it mounts /proc there
    mounts = _same("/etc/apt", "/usr/share/keyrings", *NETWORK)
    _call(["unshare", "--mount", "sh", "-ec", "\n".join(_chroot(draft, INSTALL, mounts))])


def _build_node(draft: Path) -> None:
    """With uv's cache: `make node` of a machine without internet finds there what it wants to know of its packages."""
    home, own, scratch = Path(f"{draft}{SOURCE}"), draft / "root", draft.with_name(f"{draft.name}.scratch")
    copy_source(home)
    (own / ".cache").mkdir(parents=True)
    own.chmod(0o700)
    mounts = {str(home): SOURCE, str(own / ".cache"): "/root/.cache"}
    steps = _chroot(scratch / "root", NODE, {**_pip_settings(), **mounts})
    _call(in_overlay(steps, scratch / "root", [system()], scratch / "upper"))
    shutil.rmtree(scratch)


def copy_source(target: Path) -> None:
    """The files of this checkout, also those that are not committed yet."""
    target.mkdir(parents=True, exist_ok=True)
    listed = "git ls-files -z --cached --others --exclude-standard"
    _call(["sh", "-ec", f"cd {CHECKOUT} && {listed} | tar --null -T - -c --ignore-failed-read | tar -C {target} -x"])


# ---- building


def lacking() -> str:
    """Why this machine cannot build a base; "" if it can."""
    if os.geteuid() != 0:
        return "it needs root: sudo make setup"
    if missing := [package for program, package in PROGRAMS.items() if shutil.which(program) is None]:
        return f"it needs Debian's packages: apt-get install --no-install-recommends {' '.join(missing)}"
    return ""


def ready() -> tuple[Path, Path]:
    """Both parts, for a machine."""
    found = (node(), system())
    if missing := [path.name for path in found if not os.path.isdir(path)]:
        raise Unfit(f"{CACHE} has no {' and no '.join(missing)}: run `make setup` as root")
    return found


def build(say: Callable[[str], None]) -> None:
    for place, what, make in ((system(), "Debian", _build_system), (node(), "requirements", _build_node)):
        if os.path.isdir(place):
            continue
        if why := lacking():
            raise Unfit(why)
        CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(say):
            if not os.path.isdir(place):  # another build may have made it meanwhile
                began_s = time.monotonic()
                _build(place, make)
                say(f"base of test machines: {what} built in {time.monotonic() - began_s:.0f} s ({place})")


def _build(place: Path, make: Callable[[Path], None]) -> None:
    for left in CACHE.glob("*.new*"):  # of a build that was killed: we hold the lock
        shutil.rmtree(left)
    draft = place.with_name(f"{place.name}.new")
    make(draft)
    os.sync()
    draft.rename(place)


@contextmanager
def _alone(say: Callable[[str], None]) -> Iterator[None]:
    with (CACHE / "build.lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("base of test machines: another build is under way, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    try:
        build(lambda text: print(text, flush=True))
    except Unfit as trouble:
        print(f"base of test machines: not built, tests/lab/test_booted.py will fail; {trouble}", file=sys.stderr)
        return 0 if lacking() else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
