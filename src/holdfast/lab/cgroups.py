"""Remove empty cgroups that containers leave after a simulated power cut, found by container id."""

import os
from collections.abc import Iterator
from contextlib import suppress

ROOT = "/sys/fs/cgroup"
PARENT = "libpod_parent"


def container_ids(storage: str) -> list[str]:
    """Every container that a node's podman ever had, from its storage folder."""
    folder = os.path.join(storage, "storage", "overlay-containers")
    with suppress(OSError):
        return [name for name in os.listdir(folder) if len(name) == 64]
    return []


def remove(ids: list[str]) -> None:
    for parent in _parents():
        for one in ids:
            for name in (f"libpod-{one}", f"libpod-conmon-{one}"):
                _remove_tree(os.path.join(parent, name))
        for shared in (os.path.join(parent, "conmon"), parent):
            with suppress(OSError):  # it still contains other containers
                os.rmdir(shared)


def _parents() -> Iterator[str]:
    with suppress(OSError):
        for name in ("", *os.listdir(ROOT)):
            path = os.path.join(ROOT, name, PARENT)
            if os.path.isdir(path):
                yield path


def _remove_tree(path: str) -> None:
    for folder, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):  # rmdir refuses a cgroup that still has processes
            os.rmdir(folder)
