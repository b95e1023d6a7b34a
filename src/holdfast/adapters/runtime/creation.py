"""What podman is told to make a container: our spec in its words. Pure."""

from collections.abc import Mapping
from typing import Any

from holdfast.adapters.runtime import sealed_env
from holdfast.model.container import LABEL_SEALED, OUR_LABELS, Mount
from holdfast.ports.runtime import CreateContainer

RESTARTS_MAX = 5
CPU_PERIOD_US = 100_000
LOG_BYTES_MAX = 32 << 20
# With raw sockets a container reaches what listens on the loopback of its host (route_localnet, which published ports
# need); the other two are of no use in here. Later releases of podman give none of them.
DROPPED = ("CAP_NET_RAW", "CAP_MKNOD", "CAP_AUDIT_WRITE")


def body(made: CreateContainer, limits: Mapping[str, int]) -> dict[str, Any]:
    """`limits` are said outright: podman 4.3 swaps soft and hard of what containers.conf has for callers of its API."""
    spec = made.spec
    asked: dict[str, Any] = {
        "name": made.name,
        "image": spec.reference,
        "labels": _labels(made),
        "env": dict(spec.env),
        "hostname": spec.component,
        "mounts": [_mount(mount) for mount in (*spec.mounts, *made.mounts)],
        "portmappings": [_port(*published) for published in made.publish],
        "netns": {"nsmode": "bridge"},
        "cap_drop": list(DROPPED),
        "resource_limits": _resources(spec.cpu_millicores, spec.memory_bytes),
        "r_limits": [{"type": kind, "soft": most, "hard": most} for kind, most in sorted(limits.items())],
        # A directory that an image calls a volume lives and goes with the container: what must stay is declared.
        "image_volume_mode": "ignore",
        "sdnotifyMode": "ignore",
        # Of the driver that is the machine's usual one; where that writes a file, a container cannot fill the disk.
        "log_configuration": {"size": LOG_BYTES_MAX},
        **_restart(made.restart),
    }
    if spec.command:
        asked["command"] = list(spec.command)
    if spec.network:
        # Asks the network's own DNS server, which knows the siblings and passes everything else to those of the
        # machine. With servers of its own a container would not find its siblings (podman 4.3).
        asked["networks"] = {spec.network: {"aliases": [spec.component]}}
    elif made.dns:
        asked["dns_server"] = list(made.dns)
    return asked


def sealed(
    asked: dict[str, Any], made: CreateContainer, image: sealed_env.Image, secret: str, program: str
) -> dict[str, Any]:
    """The same container, with the secret variables in a file that podman calls `secret`."""
    more = sealed_env.additions(image, made.spec.command, secret)
    return {**asked, **more, "mounts": [*asked["mounts"], sealed_env.mount(program)]}


def secret_name(container: str) -> str:
    return f"{container}.env"


def _labels(made: CreateContainer) -> dict[str, str]:
    names = ",".join(variable for variable, _ in made.secret_env)
    return {**dict.fromkeys(OUR_LABELS, ""), **made.labels, **({LABEL_SEALED: names} if names else {})}


def _restart(wanted: bool) -> dict[str, Any]:
    return {"restart_policy": "on-failure", "restart_tries": RESTARTS_MAX} if wanted else {"restart_policy": "no"}


def _mount(mount: Mount) -> dict[str, Any]:
    options = ["rbind", "rprivate", "ro" if mount.read_only else "rw"]
    return {"type": "bind", "source": mount.source, "destination": mount.target, "options": options}


def _port(inside: int, address: str, outside: int) -> dict[str, Any]:
    return {"container_port": inside, "host_ip": address, "host_port": outside, "protocol": "tcp"}


def _resources(cpu_millicores: int, memory_bytes: int) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if cpu_millicores:
        wanted["cpu"] = {"period": CPU_PERIOD_US, "quota": cpu_millicores * CPU_PERIOD_US // 1000}
    if memory_bytes:
        wanted["memory"] = {"limit": memory_bytes}
    return wanted
