"""A laboratory fleet as its users see it: who is on it and where its parts are. Pure."""

from msgspec import Struct


class LabNode(Struct, frozen=True):
    """`pids` are the host's numbers of living parts, `dirs` the host's names of what the node has mounted."""

    name: str
    roles: tuple[str, ...]
    address: str
    pids: dict[str, int]
    dirs: dict[str, str]


class LabStatus(Struct, frozen=True):
    """What `holdfast lab status --json` prints, key by key."""

    registry: str
    nodes: tuple[LabNode, ...]
