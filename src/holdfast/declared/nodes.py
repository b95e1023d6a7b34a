"""Check nodes: their number and their addresses. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.model.fleet import Node, Settings
from holdfast.planning import overlay

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


def is_edge_only(node: Node) -> bool:
    """Such a node refuses application containers (C-23)."""
    return set(node.roles) == {"edge"}


def check(nodes: Sequence[Node], settings: Settings, flaws: Flaws) -> None:
    if len(nodes) > settings.nodes_max:
        what = f"lists {len(nodes):,} nodes; nodes_max allows {settings.nodes_max:,}"
        flaws.add(FLEET_FILE, ("nodes",), what, "raise nodes_max in [fleet], or remove nodes")
    if not any(node.address or node.public_address for node in nodes):
        return  # the usual fleet before its nodes joined; avoids the import that addresses need
    network = overlay.network(settings.overlay_cidr)
    owners: dict[str, str] = {}
    for at, node in enumerate(nodes):
        if node.address:
            _check_address(at, node, network, owners, flaws)
        if node.public_address and overlay.address(node.public_address) is None:
            what = f"{shown(node.public_address)} is not an IP address"
            flaws.add_checked(FLEET_FILE, ("nodes", at, "public_address"), what, "write one such as 203.0.113.7")


def _check_address(
    at: int, node: Node, network: "IPv4Network | IPv6Network | None", owners: dict[str, str], flaws: Flaws
) -> None:
    where = ("nodes", at, "address")
    address = overlay.address(node.address)
    if address is None:
        what = f"{shown(node.address)} is not an IP address"
        flaws.add_checked(FLEET_FILE, where, what, "write one such as 100.64.0.7, or leave it out")
    elif network is not None and address not in network:
        what = f"{address} is outside the overlay network {network}"
        flaws.add_checked(FLEET_FILE, where, what, "correct it, or overlay_cidr in [fleet]")
    elif (owner := owners.setdefault(str(address), node.name)) != node.name:
        flaws.add_checked(FLEET_FILE, where, f'{address} is also the address of node "{owner}"', "correct one of them")
