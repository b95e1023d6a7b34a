"""What a file system has left, as `df` counts it. A value."""

from msgspec import Struct


class DiskRoom(Struct, frozen=True):
    """`device` tells file systems apart. Free is what programs may still use; without a limit of files both are 0."""

    name: str  # what it is for: data, state, containers
    path: str
    device: int
    used_bytes: int
    free_bytes: int
    used_files: int
    free_files: int
