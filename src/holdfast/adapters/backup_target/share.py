"""Whether a directory is the mounted share of a server that a durable id names: the table of mounts says so."""

import os

from holdfast.adapters.backup_target import troubles

MOUNTS = "/proc/self/mountinfo"


def belongs(root: int, durable_id: str) -> str:
    """Why not; "" if it is."""
    device = os.fstat(root).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(MOUNTS) as lines:
            fields = [line.rstrip("\n").split(" ") for line in lines]
    except OSError as trouble:
        raise troubles.of(MOUNTS, trouble) from trouble
    sources = {_named(line[line.index("-") + 2]) for line in fields if line[2] == number}
    if durable_id.rstrip("/") in sources:
        return ""
    found = ", ".join(sorted(sources)) or "no file system of its own"
    return f"{durable_id} is not mounted there ({found} is)"


def _named(source: str) -> str:
    """//server/name is written server:/name."""
    if source.startswith("//"):
        server, _, name = source[2:].partition("/")
        source = f"{server}:/{name}"
    return source.rstrip("/")
