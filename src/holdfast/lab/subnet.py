"""Which /24 of 100.64.0.0/10 a lab gets. Pure: takes what is in use, returns a network."""

from collections.abc import Sequence
from ipaddress import IPv4Network

from holdfast.errors import Conflict

POOL = IPv4Network("100.64.0.0/10")
PREFIX = 24
COUNT = 1 << (PREFIX - POOL.prefixlen)


def choose(lab_id: str, used: Sequence[IPv4Network]) -> IPv4Network:
    """Begins at a place of the lab's own, so that a new lab rarely takes the addresses of one just gone."""
    near = [network for network in used if network.prefixlen > 0 and network.overlaps(POOL)]
    first = int(lab_id, 16) % COUNT
    for step in range(COUNT):
        candidate = _nth((first + step) % COUNT)
        if not any(candidate.overlaps(network) for network in near):
            return candidate
    raise Conflict(
        f"no /{PREFIX} of {POOL} is free on this machine",
        remedy="holdfast lab down --dir D for each lab you no longer need; `ip route` shows who uses the addresses",
        code="subnet_exhausted",
    )


def _nth(index: int) -> IPv4Network:
    return IPv4Network((int(POOL.network_address) + (index << (32 - PREFIX)), PREFIX))
