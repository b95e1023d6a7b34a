"""Addresses of containers in a closed network, which has no name server. Pure."""

from collections.abc import Sequence
from ipaddress import ip_network

from holdfast.ports.runtime import Closed

FIRST_HOST = 2  # of the subnet


def places(subnet: str, names: Sequence[str]) -> tuple[Closed, ...]:
    """One for each name, in order: each knows all of them by name."""
    first = ip_network(subnet).network_address + FIRST_HOST
    hosts = tuple((name, str(first + at)) for at, name in enumerate(names))
    return tuple(Closed(address, hosts) for _, address in hosts)
