"""The lab's network: a bridge on the host, a veth pair per node, and cuts between nodes."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Network

from holdfast.errors import Failed
from holdfast.lab import command, firewall
from holdfast.lab.blueprint import Blueprint, Site

LINKS = "/sys/class/net"


def networks_in_use() -> list[IPv4Network]:
    """Addresses and routes of the host, including those of other labs."""
    found = []
    for route in json.loads(command.run(["ip", "-json", "-4", "route", "show", "table", "all"])):
        if route["dst"] != "default":
            found.append(IPv4Network(route["dst"], strict=False))
    for link in json.loads(command.run(["ip", "-json", "-4", "address"])):
        found += [IPv4Network(f"{a['local']}/{a['prefixlen']}", strict=False) for a in link.get("addr_info", [])]
    return found


def lay_bridge(blueprint: Blueprint) -> None:
    prefix = blueprint.subnet.partition("/")[2]
    _ip(
        f"link add {blueprint.bridge} address {blueprint.bridge_mac} type bridge",
        f"link set {blueprint.bridge} addrgenmode none",
        f"address add {blueprint.host_address}/{prefix} dev {blueprint.bridge}",
        f"link set {blueprint.bridge} up",
    )


def plug_in(blueprint: Blueprint, site: Site, init: int) -> None:
    """`init` is any process in the node's network namespace."""
    unplug(site)
    _ip(
        f"link add {site.link} type veth peer name eth0 address {site.mac} netns {init}",
        f"link set {site.link} addrgenmode none",
        f"link set {site.link} master {blueprint.bridge} up",
    )
    prefix = blueprint.subnet.partition("/")[2]
    inside = [
        "link set lo up",
        "link set eth0 addrgenmode none",
        f"address add {site.address}/{prefix} dev eth0",
        "link set eth0 up",
        f"route add default via {blueprint.host_address}",
    ]
    command.run(["nsenter", "-t", str(init), "-n", "ip", "-batch", "-"], given="\n".join(inside) + "\n")


def unplug(site: Site) -> None:
    if site.link in os.listdir(LINKS):
        with suppress(Failed):  # the kernel may have removed the pair together with its namespace
            _ip(f"link delete {site.link}")


def cut(blueprint: Blueprint, cuts: Sequence[firewall.Cut]) -> None:
    links = {site.name: site.link for site in blueprint.sites}
    command.run(["nft", "-f", "-"], given=firewall.rules(blueprint.table, cuts, links))


def remove(blueprint: Blueprint) -> None:
    """All links with the lab's prefix, also those of an incomplete lab."""
    for name in sorted(os.listdir(LINKS), reverse=True):
        if name == blueprint.bridge or name.startswith(f"{blueprint.bridge}n"):
            with suppress(Failed):
                _ip(f"link delete {name}")
    if left := [name for name in os.listdir(LINKS) if name.startswith(blueprint.bridge)]:
        raise Failed(f"cannot delete the links {' '.join(left)}", remedy=f"ip link delete {left[0]}; holdfast lab down")
    cut(blueprint, ())


def _ip(*lines: str) -> None:
    command.run(["ip", "-batch", "-"], given="\n".join(lines) + "\n")
