"""What must hold before a lab is made: its nodes, its directory, the commands and the kernel of this machine."""

import os

from holdfast.errors import Invalid
from holdfast.lab import command, inotify, record, roster
from holdfast.lab.place import OWN_MOUNTS, Place


def check(place: Place, nodes: str) -> None:
    """Runs before the directory is created, so that a wrong argument leaves nothing behind."""
    seats = roster.parse(nodes)
    command.require()
    if not os.path.isdir(place.root) or record.read(place) is None:
        inotify.check(len(seats))
    hidden = next((path for path in OWN_MOUNTS if f"{place.root}/".startswith(f"{path}/")), None)
    if hidden is not None:
        raise Invalid(
            f"nodes cannot see a lab in {place.root}, because they have their own {hidden}",
            remedy="choose another directory with --dir",
        )
