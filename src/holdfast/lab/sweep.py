"""Remove a lab: everything with its mark, in an order that lets nothing restart."""

import os
import shutil
import subprocess

from holdfast.errors import Failed
from holdfast.lab import cgroups, mounts, network, processes
from holdfast.lab.blueprint import Blueprint
from holdfast.lab.place import Place

BURIAL_S_MAX = 4.0


def sweep(place: Place, blueprint: Blueprint, keep_lock: bool = False) -> None:
    """Can be repeated after an interruption: the record is removed last."""
    ended = processes.end(lambda: processes.members(blueprint.mark, None, place.nodes))
    network.remove(blueprint)
    for site in blueprint.sites:
        cgroups.remove(cgroups.container_ids(place.node(site.name)["containers"]))
    _unmount(place)
    processes.await_burial(ended, BURIAL_S_MAX)
    for path in place.contents():
        if path != place.lock or not keep_lock:
            _remove(path)


def _unmount(place: Place) -> None:
    """Deleting through a mount would delete elsewhere. Only the lab's own paths are touched."""
    for path in place.contents():
        for target in reversed(mounts.below(path)):
            subprocess.run(["umount", "--lazy", target], capture_output=True)
    if left := [target for path in place.contents() for target in mounts.below(path)]:
        raise Failed(f"{left[0]} is still mounted", remedy=f"umount {left[0]}; holdfast lab down")


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
