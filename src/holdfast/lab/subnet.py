"""Choose a free /24 of 100.64.0.0/10 for a lab. Pure."""

from collections.abc import Sequence
from ipaddress import IPv4Network

from holdfast.errors import Conflict

POOL = IPv4Network("100.64.0.0/10")
PREFIX = 24
COUNT = 1 << (PREFIX - POOL.prefixlen)


def choose(lab_id: str, used: Sequence[IPv4Network]) -> IPv4Network:
    """Starts at a point derived from the lab's id, so that a new lab rarely reuses recent addresses."""
    near = [network for network in used if network.prefixlen > 0 and network.overlaps(POOL)]
    first = int(lab_id, 16) % COUNT
    for step in range(COUNT):
        candidate = _nth((first + step) % COUNT)
        if not any(candidate.overlaps(network) for network in near):
            return candidate
    raise Conflict(
        f"no /{PREFIX} of {POOL} is free on this machine",
        remedy="run `holdfast lab down --dir DIR` for each lab you no longer need; `ip route` lists used addresses",
        code="subnet_exhausted",
    )


def _nth(index: int) -> IPv4Network:
    return IPv4Network((int(POOL.network_address) + (index << (32 - PREFIX)), PREFIX))
