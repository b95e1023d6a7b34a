"""Nodes that passed the struct check: their number and their addresses. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.model.fleet import Node, Settings

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_DEFAULT_CIDR = Settings("x").overlay_cidr


def is_edge_only(node: Node) -> bool:
    """Such a node refuses application containers (C-23)."""
    return set(node.roles) == {"edge"}


def check(nodes: Sequence[Node], settings: Settings, flaws: Flaws) -> None:
    if len(nodes) > settings.nodes_max:
        what = f"lists {len(nodes):,} nodes; nodes_max allows {settings.nodes_max:,}"
        flaws.add(FLEET_FILE, ("nodes",), what, "raise nodes_max in [fleet], or remove nodes")
    if settings.overlay_cidr == _DEFAULT_CIDR and not any(node.address for node in nodes):
        return  # the usual fleet before its nodes joined; spare it the import below
    overlay = _network(settings.overlay_cidr, flaws)
    owners: dict[str, str] = {}
    for at, node in enumerate(nodes):
        if node.address:
            _check_address(at, node, overlay, owners, flaws)


def _network(text: str, flaws: Flaws) -> "IPv4Network | IPv6Network | None":
    from ipaddress import ip_network

    try:
        return ip_network(text)
    except ValueError:
        flaws.add(
            FLEET_FILE,
            ("fleet", "overlay_cidr"),
            f"{shown(text)} is not a network",
            f'write its first address and a length such as "{_DEFAULT_CIDR}"',
        )
        return None


def _check_address(
    at: int, node: Node, overlay: "IPv4Network | IPv6Network | None", owners: dict[str, str], flaws: Flaws
) -> None:
    where = ("nodes", at, "address")
    address = _address(node.address)
    if address is None:
        what = f"{shown(node.address)} is not an IP address"
        flaws.add_checked(FLEET_FILE, where, what, "write one such as 100.64.0.7, or leave it out")
    elif overlay is not None and address not in overlay:
        what = f"{address} is outside the overlay network {overlay}"
        flaws.add_checked(FLEET_FILE, where, what, "correct it, or overlay_cidr in [fleet]")
    elif (owner := owners.setdefault(str(address), node.name)) != node.name:
        flaws.add_checked(FLEET_FILE, where, f'{address} is also the address of node "{owner}"', "correct one of them")


def _address(text: str) -> "IPv4Address | IPv6Address | None":
    from ipaddress import ip_address

    try:
        return ip_address(text)
    except ValueError:
        return None
