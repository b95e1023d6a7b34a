"""Whether the kernel has enough inotify instances for the proxies of a lab: its nodes share those of one user."""

import os
from collections.abc import Iterator
from contextlib import suppress

from holdfast.errors import Invalid

LIMIT = "/proc/sys/fs/inotify/max_user_instances"
EACH = 9  # of one Envoy: it ends at its start without them
SPARE = 8  # for other programs


def check(nodes: int) -> None:
    with open(LIMIT, encoding="ascii") as file:
        limit = int(file.read())
    wanted = sum(_used()) + EACH * nodes + SPARE
    if wanted > limit:
        raise Invalid(
            f"the proxies of {nodes} nodes need {EACH * nodes} inotify instances; of {limit} for this user, "
            f"{limit - wanted + EACH * nodes + SPARE} are left",
            remedy=f"sysctl -w fs.inotify.max_user_instances={max(1024, 2 * wanted)}",
            code="inotify_limit",
        )


def _used() -> Iterator[int]:
    """By each process of this user."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # it ended
            if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                yield sum(_is_inotify(f"/proc/{name}/fd/{handle}") for handle in os.listdir(f"/proc/{name}/fd"))


def _is_inotify(path: str) -> bool:
    try:
        return os.readlink(path) == "anon_inode:inotify"
    except OSError:
        return False
