"""Addresses that alerts may go to: not this machine, not its link, not the overlay network (X04)."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec import Struct

DEFAULT_OVERLAY = "100.64.0.0/10"
_NAT64 = IPv6Network("64:ff9b::/96")


class Targets(Struct, frozen=True):
    """`allowed` comes from the flag of the process that sends, never from a fleet directory."""

    overlay: str = DEFAULT_OVERLAY
    allowed: tuple[str, ...] = ()

    def complaint(self, address: str) -> str | None:
        """Why no alert goes to this IP address, or None."""
        try:
            given = ip_address(address.partition("%")[0])
        except ValueError:
            return "an alert goes to an IP address, not to a name that is looked up again"
        for found in _meanings(given):
            if any(_within(found, network) for network in self.allowed):
                continue
            for what, is_so in (
                ("a loopback", found.is_loopback or found.is_unspecified),
                ("a link-local", found.is_link_local),
                ("a multicast or reserved", found.is_multicast or found.is_reserved),
                ("an overlay", any(_within(found, network) for network in (self.overlay, DEFAULT_OVERLAY))),
            ):
                if is_so:
                    return f"{given} is {what} address; --alert-network NETWORK at the start of what sends allows it"
        return None


def _meanings(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """The address, or the IPv4 address that it stands for."""
    if isinstance(address, IPv4Address):
        yield address
        return
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    yield inner if inner is not None else address


def _within(address: IPv4Address | IPv6Address, network: str) -> bool:
    found = ip_network(network, strict=False)
    return found.version == address.version and address in found
