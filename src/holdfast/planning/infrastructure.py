"""Checks of a fleet's overlay, proxies, DNS and public authority settings. Pure."""

from collections.abc import Iterator, Set

from msgspec import UNSET

from holdfast.model.fleet import Acme, Dns, FleetDocument, Node, Overlay, Settings
from holdfast.model.route import within
from holdfast.planning import overlay as network
from holdfast.planning import storage
from holdfast.planning.complaint import Complaint, quoted
from holdfast.planning.edges import form_complaint, proxy_of

_PEM = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")


def fleet_complaints(fleet: FleetDocument) -> Iterator[Complaint]:
    """All checks that need only the `fleet` resource; paths are those of fleet.toml."""
    yield from settings_complaints(fleet.settings)
    if fleet.acme is not UNSET:
        yield from acme_complaints(fleet.acme, fleet.settings)
    yield from dns_complaints(fleet.dns)
    yield from storage.of_kept(fleet.backups.retain, ("backups", "retain"))


def settings_complaints(settings: Settings) -> Iterator[Complaint]:
    if settings.overlay_cidr != _DEFAULT_CIDR and network.network(settings.overlay_cidr) is None:
        what = f"{quoted(settings.overlay_cidr)} is not a network"
        remedy = f'write its first address and a length such as "{_DEFAULT_CIDR}"'
        yield Complaint(("fleet", "overlay_cidr"), what, remedy)
    for at, domain in enumerate(settings.public_domains):
        if wrong := form_complaint(domain):
            yield Complaint(("fleet", "public_domains", at), wrong, 'write one such as "example.com"')


def acme_complaints(acme: Acme, settings: Settings) -> Iterator[Complaint]:
    if not acme.terms_agreed:
        what = "the authority issues no certificates before you agree to its terms"
        yield Complaint(("acme", "terms_agreed"), what, "read them, then write terms_agreed = true")
    if acme.ca and not (acme.ca.strip().startswith(_PEM[0]) and acme.ca.strip().endswith(_PEM[1])):
        what = "is not the PEM text of a certificate"
        yield Complaint(("acme", "ca"), what, f'write the text itself, ca = """{_PEM[0]} …""", not the name of a file')
    for at, contact in enumerate(acme.contact):
        if not contact.startswith("mailto:") or "@" not in contact:
            what = f"{quoted(contact)} is not a contact address that the authority can use"
            yield Complaint(("acme", "contact", at), what, 'write "mailto:you@example.com"')
    for at, domain in enumerate(acme.domains):
        if not any(within(domain, public) for public in settings.public_domains):
            what = f"{domain} is not within public_domains"
            yield Complaint(("acme", "domains", at), what, "add it to public_domains in [fleet], or remove it here")


def dns_complaints(dns: Dns) -> Iterator[Complaint]:
    for at, upstream in enumerate(dns.upstream):
        if network.address(upstream) is None:
            what = f"{quoted(upstream)} is not an IP address"
            yield Complaint(("dns", "upstream", at), what, 'write one such as "9.9.9.9"')
    if dns.driver == "none" and dns.nodes:
        what = 'names nodes that serve DNS, but driver = "none" turns DNS off'
        yield Complaint(("dns", "nodes"), what, "remove one of the two")


def node_complaints(node: Node, settings: Settings, overlay: Overlay) -> Iterator[Complaint]:
    """Paths are within the node's own table. Its address is checked elsewhere, together with those of other nodes."""
    if "edge" in node.roles and proxy_of(node) != "public":
        what = f'has the role edge and proxy = "{node.proxy}", so it would not be reachable from the internet'
        yield Complaint(("proxy",), what, "remove proxy, or the role edge")
    if "edge" not in node.roles and proxy_of(node) == "public":
        what = 'proxy = "public" listens on the internet, which needs the role edge'
        yield Complaint(("proxy",), what, "add edge to its roles, or remove proxy")
    if "edge" in node.roles and not settings.public_domains:
        what = "has the role edge, but the fleet has no domain that an edge may serve"
        yield Complaint(("roles",), what, "add public_domains to [fleet]")
    if proxy_of(node) == "none" and not overlay.encrypted:
        what = 'proxy = "none" leaves connections to its containers unencrypted unless the overlay network encrypts'
        remedy = "remove proxy; or, if the network encrypts (WireGuard does), write encrypted = true in [overlay]"
        yield Complaint(("proxy",), what, remedy)


def unknown_servers(dns: Dns, nodes: Set[str]) -> Iterator[tuple[int, str]]:
    return ((at, name) for at, name in enumerate(dns.nodes) if name not in nodes)


_DEFAULT_CIDR = Settings("x").overlay_cidr
