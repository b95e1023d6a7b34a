"""The host paths of a service's volumes, and whether one contains another. Pure.

A container that may write into a directory can replace anything in it by a symbolic link. The next mount would follow
that link: out of the service's data, into the node. So nothing is mounted from inside another mount.
"""

import posixpath

from holdfast.model.fleet import Service, Volume

DATA_ROOT = "/srv"  # as written in files; the agent maps it to the real data directory


def source(volume: Volume | str, service: str) -> str:
    """The path as written, normalised."""
    path = f"{DATA_ROOT}/{service}/{volume.name}" if isinstance(volume, Volume) else volume.partition(":")[0]
    return posixpath.normpath("/" + path.lstrip("/"))


def on_node(path: str, data_dir: str) -> str:
    """A host path as written, on a node with this data directory."""
    below = path == DATA_ROOT or path.startswith(DATA_ROOT + "/")
    return data_dir + path[len(DATA_ROOT) :] if below else path


def nested(service: Service, name: str) -> tuple[str, str] | None:
    """The first two sources of which one lies inside the other, the inner one first."""
    sources = sorted({source(volume, name) for component in service.components for volume in component.volumes})
    pairs = ((inner, outer) for inner in sources for outer in sources if inner != outer)
    return next((pair for pair in pairs if pair[0].startswith(pair[1].rstrip("/") + "/")), None)


def outside(service: Service, name: str) -> list[str]:
    """What it mounts from elsewhere than its own directory."""
    sources = {source(volume, name) for component in service.components for volume in component.volumes}
    return sorted(path for path in sources if not path.startswith(f"{DATA_ROOT}/{name}/"))
