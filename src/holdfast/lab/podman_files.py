"""What podman reads in a node: its configuration as texts, path by path. Pure."""

# Limits no node of a lab needs more of, and products that work without systemd and beside cgroup v1.
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
    """Named outright, because a CONTAINERS_CONF of the caller would win over the folder."""
    return {
        "CONTAINERS_CONF": f"{FOLDER}/containers.conf",
        "CONTAINERS_REGISTRIES_CONF": f"{FOLDER}/registries.conf",
        "CONTAINERS_STORAGE_CONF": f"{FOLDER}/storage.conf",
    }
