"""Addresses in the overlay: the one network of nodes and backends (M-25, C-25). Pure; opens no connection."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.model.fleet import Node
from holdfast.model.revision import Table
from holdfast.planning.complaint import quoted

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network


def network(text: str) -> "IPv4Network | IPv6Network | None":
    """None for text that is not a network, written as its first address and a length."""
    from ipaddress import ip_network  # costs 5 ms, which a plan without addresses need not pay

    try:
        return ip_network(text)
    except ValueError:
        return None


def address(text: str) -> "IPv4Address | IPv6Address | None":
    """A literal address in its usual spelling. An IPv6 zone index is refused: it has no meaning on other machines."""
    from ipaddress import ip_address

    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found if str(found) == text and "%" not in text else None


def outside(text: str, cidr: str) -> str | None:
    """Why this is not an address in the overlay, or None."""
    found, overlay = address(text), network(cidr)
    if overlay is None:
        return f"the overlay network {quoted(cidr)} is not a network"
    if found is None:
        return f"{quoted(text)} is not an IP address"
    return None if found in overlay else f"{found} is outside the overlay network {overlay}"


def host_of(reported: str) -> str:
    """The address a node reports may have a port; a name instead of an address cannot be used for routes."""
    bare = reported
    if reported.startswith("["):
        bare = reported[1:].partition("]")[0]
    elif reported.count(":") == 1:
        bare = reported.partition(":")[0]
    found = address(bare.lower())
    return "" if found is None else str(found)


def addresses(nodes: Mapping[str, Node], applied: Table, reported: Mapping[str, str], cidr: str) -> dict[str, str]:
    """Node → its address: as declared, else as it reports, else as applied; "" while none is known.

    Two nodes never share one: a declared address wins; of the others the node that had it before, then by name.
    """
    found = {name: node.address for name, node in nodes.items() if node.address}
    taken = set(found.values())
    open_ones = [name for name in sorted(nodes) if name not in found]
    before = {name: entry.address for name in nodes if (entry := applied.entries.get(f"node.{name}")) is not None}
    said = {name: host_of(reported[name]) for name in open_ones if reported.get(name)}
    said = {name: text for name, text in said.items() if text and outside(text, cidr) is None}
    had = {name: text for name, text in before.items() if text and name in open_ones}
    # A silent node must not lose its address to another node that claims the same one.
    reserved = {text: name for name, text in had.items() if said.get(name, text) == text}
    for name in sorted(open_ones, key=lambda one: (said.get(one, "") != had.get(one), one)):
        choices = [text for text in (said.get(name, ""), had.get(name, "")) if reserved.get(text, name) == name]
        chosen = next((text for text in choices if text and text not in taken and outside(text, cidr) is None), "")
        found[name] = chosen
        taken.add(chosen)
    return {name: found[name] for name in nodes}
