"""Translate our container spec into podman's create request. Pure."""

from collections.abc import Mapping
from typing import Any

from holdfast.adapters.runtime.podman import sealed_env
from holdfast.model.container import LABEL_SEALED, OUR_LABELS, Mount
from holdfast.ports.runtime import Closed, CreateContainer

RESTARTS_MAX = 5
CPU_PERIOD_US = 100_000
LOG_BYTES_MAX = 32 << 20
# With raw sockets a container could reach services on the host's loopback (route_localnet, which published ports
# need); the other two are useless in a container. Later releases of podman grant none of them.
DROPPED = ("CAP_NET_RAW", "CAP_MKNOD", "CAP_AUDIT_WRITE")


def body(made: CreateContainer, limits: Mapping[str, int]) -> dict[str, Any]:
    """`limits` are set explicitly: for API callers podman 4.3 swaps the soft and hard limits of containers.conf."""
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
        # A directory that the image declares as a volume is deleted with the container: data to keep must be declared.
        "image_volume_mode": "ignore",
        "sdnotifyMode": "ignore",
        "stop_timeout": spec.stop_s,
        # For the machine's default log driver; if that one writes a file, a container cannot fill the disk.
        "log_configuration": {"size": LOG_BYTES_MAX},
        **_restart(made.restart),
    }
    if spec.user:
        asked["user"] = spec.user
    if spec.command:
        asked["command"] = list(spec.command)
    if made.closed is not None:
        asked |= _closed(made.closed, spec.network, spec.component)
    elif spec.network:
        # It uses the network's own DNS server, which knows the sibling containers and forwards other names to the
        # machine's servers. With DNS servers of its own a container would not find its siblings (podman 4.3).
        asked["networks"] = {spec.network: {"aliases": [spec.component]}}
    elif made.dns:
        asked["dns_server"] = list(made.dns)
    return asked


def _closed(closed: Closed, network: str, component: str) -> dict[str, Any]:
    """A closed network has no gateway and no name server. IPv6 would have one all the same: the bridge has an address
    of its own link."""
    return {
        "networks": {network: {"aliases": [component], "static_ips": [closed.address]}},
        "hostadd": [f"{name}:{address}" for name, address in closed.hosts],
        "dns_server": ["127.0.0.1"],
        "sysctl": {"net.ipv6.conf.eth0.disable_ipv6": "1"},
    }


def with_program(asked: dict[str, Any], program: str) -> dict[str, Any]:
    """A static busybox is in it: `connect` begins there."""
    mount = sealed_env.mount(program)
    return asked if mount in asked["mounts"] else {**asked, "mounts": [*asked["mounts"], mount]}


def sealed(
    asked: dict[str, Any], made: CreateContainer, image: sealed_env.Image, secret: str, program: str
) -> dict[str, Any]:
    """The same container, with the secret variables in a file; `secret` is its name in podman."""
    return with_program({**asked, **sealed_env.additions(image, made.spec.command, secret)}, program)


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
