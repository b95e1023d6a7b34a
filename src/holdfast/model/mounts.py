"""Where on the node the volumes of a service come from, and whether one of them lies inside another. Pure.

A container that may write into a directory can put a link in the place of anything in it, and whoever mounts that next
follows it: out of the service's data, into the node. So nothing is mounted from inside what a container has.
"""

import posixpath

from holdfast.model.fleet import Service, Volume

DATA_ROOT = "/srv"  # as written in files; where data really lies is the agent's affair


def source(volume: Volume | str, service: str) -> str:
    """As files write it, without detours."""
    path = f"{DATA_ROOT}/{service}/{volume.name}" if isinstance(volume, Volume) else volume.partition(":")[0]
    return posixpath.normpath("/" + path.lstrip("/"))


def nested(service: Service, name: str) -> tuple[str, str] | None:
    """The first two sources, the inner one first, of which one lies inside the other."""
    sources = sorted({source(volume, name) for component in service.components for volume in component.volumes})
    pairs = ((inner, outer) for inner in sources for outer in sources if inner != outer)
    return next((pair for pair in pairs if pair[0].startswith(pair[1].rstrip("/") + "/")), None)
