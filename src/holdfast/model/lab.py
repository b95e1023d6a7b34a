"""A lab fleet: its nodes, processes and directories. Pure."""

from msgspec import Struct


class LabNode(Struct, frozen=True):
    """`pids` are process ids on the host, `dirs` the host paths of what the node has mounted."""

    name: str
    roles: tuple[str, ...]
    address: str
    pids: dict[str, int]
    dirs: dict[str, str]


class LabStatus(Struct, frozen=True):
    """What `holdfast lab status --json` prints, key by key."""

    registry: str
    nodes: tuple[LabNode, ...]
