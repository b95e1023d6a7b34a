"""Podman's configuration files in a lab node. Pure."""

# Limits that suffice for a lab, and settings that work without systemd and with cgroup v1. Networks are kept where each
# node has its own directory: /etc/containers is one for all nodes, so that one node removed the networks of another.
_CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
log_driver = "k8s-file"

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"

[network]
network_backend = "netavark"
network_config_dir = "/var/lib/containers/networks"
"""

_REGISTRIES = """\
unqualified-search-registries = ["{registry}"]
short-name-mode = "permissive"

[[registry]]
location = "{registry}"
insecure = true
"""

_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'

_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
"""

FOLDER = "/etc/containers"


def files(registry: str) -> dict[str, str]:
    return {
        "containers.conf": _CONTAINERS,
        "registries.conf": _REGISTRIES.format(registry=registry),
        "policy.json": _POLICY,
        "storage.conf": _STORAGE,
    }


def variables() -> dict[str, str]:
    """Set explicitly, because the caller's CONTAINERS_CONF would override the folder."""
    return {
        "CONTAINERS_CONF": f"{FOLDER}/containers.conf",
        "CONTAINERS_REGISTRIES_CONF": f"{FOLDER}/registries.conf",
        "CONTAINERS_STORAGE_CONF": f"{FOLDER}/storage.conf",
    }
