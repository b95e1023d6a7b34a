"""Run a system command to its end; a failure becomes an error with a remedy."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from shutil import which

from holdfast.errors import Failed, Invalid

# The commands a lab needs, and the Debian package of each.
PACKAGES = {
    "podman": "podman",
    "runc": "runc",
    "conmon": "conmon",
    "iptables": "iptables",
    "ip": "iproute2",
    "nft": "nftables",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "docker-registry": "docker-registry",
    "busybox": "busybox-static",
    "curl": "curl",
    "cc": "gcc libc6-dev libnghttp2-dev",
    "dnsmasq": "dnsmasq-base",
    "netavark": "netavark aardvark-dns",
}


COMMANDS = tuple(name for name in PACKAGES if name != "netavark")
NETAVARK = ("/usr/lib/podman/netavark", "/usr/libexec/podman/netavark")  # not on PATH


def require(names: Sequence[str] = COMMANDS) -> None:
    missing = [name for name in names if which(name) is None]
    if "podman" in names and not any(map(os.path.exists, NETAVARK)):
        missing.append("netavark")
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGES[name] for name in missing))
        raise Invalid(
            f"this machine lacks {', '.join(missing)}, which the lab needs",
            remedy=f"apt-get install --no-install-recommends {packages}",
            code="missing_package",
        )


def run(
    words: Sequence[str],
    *,
    given: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60,
    remedy: str = "`holdfast lab down`, then `holdfast lab up` again",
) -> str:
    try:
        done = subprocess.run(words, input=given, env=env, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"{words[0]} did not end within {timeout_s:.0f} s", remedy=remedy, code="timed_out") from None
    if done.returncode != 0:
        raise Failed(f"`{' '.join(words)[:300]}` failed: {_last(done.stderr)}", remedy=remedy)
    return done.stdout


def _last(text: str, lines: int = 3) -> str:
    return " | ".join(text.strip().splitlines()[-lines:])[:1000] or "no error output"
