"""Who may write into the volumes of a component: every container that mounts them, each as a digest. Pure.

A field of a container's spec counts until HARMLESS lists it: a new field is a new writer.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.container import ContainerSpec, Part

# Fields that do not change what a container does with its data.
HARMLESS: Mapping[str, str] = {
    "cpu_millicores": "a limit",
    "memory_bytes": "a limit",
    "ports": "who may connect to it",
    "exposed": "who may connect to it",
}


def writer(spec: ContainerSpec, probe: tuple[str, ...] = ()) -> str:
    """`probe` is a command that runs inside it besides its own."""
    fields = {name: value for name, value in msgspec.to_builtins(spec).items() if name not in HARMLESS}
    return canonical.digest(canonical.encode({"spec": fields, "probe": probe} if probe else {"spec": fields}))


def writers_of(part: Part) -> frozenset[str]:
    """Of a component without volumes: none. A pre_deploy hook gets no volumes."""
    if not part.spec.mounts:
        return frozenset()
    commands = [command for command in (part.post_deploy, *part.runs) if command]
    found = {writer(part.spec), *(writer(replace(part.spec, command=command)) for command in commands)}
    if part.health is not UNSET and part.health.type == "exec":
        found.add(writer(part.spec, probe=("health", *part.health.cmd)))
    return frozenset(found)
