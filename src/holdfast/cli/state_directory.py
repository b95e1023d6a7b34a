"""The state directory of a hub or an agent: for its owner alone, below directories that every user may enter."""

import os

from holdfast.ports.disk import Disk


def make(path: str, disk: Disk) -> None:
    """Directories above it are made with mode 0755: the hub's unit runs as a user of its own (N01)."""
    disk.make_directory(os.path.dirname(os.path.abspath(path)), 0o755)
    disk.make_directory(path, 0o700)
