"""Names and addresses of all parts of a lab, derived from its id and roster. Pure."""

from collections.abc import Sequence
from ipaddress import IPv4Network

from msgspec import Struct

from holdfast.errors import Invalid
from holdfast.lab.roster import Seat

MARK = "HOLDFAST_LAB_ID"  # in the environment of every process of a lab
HOST = 1  # the bridge: registry and clients
FIRST_NODE = 11
REGISTRY_PORT = 5000
HUB_PORT = 9555
PUBLIC_DOMAIN = "example.test"
INTERNAL_ZONE = "svc.lab.test"


class Site(Struct, frozen=True):
    """One node: the name of its interface on the host, its IP address, its MAC address."""

    name: str
    roles: tuple[str, ...]
    link: str
    address: str
    mac: str


class Blueprint(Struct, frozen=True):
    """Recorded before the lab's first part exists; `down` needs nothing else."""

    id: str
    subnet: str
    sites: tuple[Site, ...]

    @property
    def bridge(self) -> str:
        return f"hf{self.id}"

    @property
    def table(self) -> str:
        return f"hf{self.id}"

    @property
    def mark(self) -> str:
        return f"{MARK}={self.id}"

    @property
    def host_address(self) -> str:
        return _address(self.subnet, HOST)

    @property
    def bridge_mac(self) -> str:
        return _mac(self.id, HOST)

    @property
    def registry(self) -> str:
        return f"{self.host_address}:{REGISTRY_PORT}"

    @property
    def hub(self) -> Site:
        return next(site for site in self.sites if "hub" in site.roles)

    @property
    def hub_url(self) -> str:
        return f"https://{self.hub.address}:{HUB_PORT}"

    def site(self, name: str) -> Site:
        found = next((site for site in self.sites if site.name == name), None)
        if found is None:
            known = ", ".join(site.name for site in self.sites)
            raise Invalid(f"the lab has no node {name!r}", remedy=f"use one of its nodes: {known}", code="unknown_node")
        return found


def draw(lab_id: str, subnet: IPv4Network, seats: Sequence[Seat]) -> Blueprint:
    """Interface names have at most 15 characters: hf, eight of the id, n and up to three digits."""
    text = str(subnet)
    sites = [
        Site(seat.name, seat.roles, f"hf{lab_id}n{index}", _address(text, FIRST_NODE + index), _mac(lab_id, index + 11))
        for index, seat in enumerate(seats)
    ]
    return Blueprint(lab_id, text, tuple(sites))


def _address(subnet: str, number: int) -> str:
    return str(IPv4Network(subnet)[number])


def _mac(lab_id: str, number: int) -> str:
    """Stable over restarts of a node, so that its neighbours' ARP entries stay valid."""
    octets = [0x02, *bytes.fromhex(lab_id), number]
    return ":".join(f"{octet:02x}" for octet in octets)
