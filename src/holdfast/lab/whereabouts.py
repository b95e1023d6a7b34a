"""Resolve a name as a client outside the fleet: internal names by the nodes' DNS, public ones to an edge."""

import socket
import ssl
from collections.abc import Sequence

from holdfast.errors import Unreachable
from holdfast.lab.blueprint import INTERNAL_ZONE, PUBLIC_DOMAIN, Blueprint
from holdfast.model.route import HTTPS, within

ASK_S_MAX = 1.0
DNS = 53


def address_of(host: str, blueprint: Blueprint) -> str | None:
    """None for names outside the lab: curl resolves them."""
    if within(host, PUBLIC_DOMAIN):
        return _edge_of(host, [site.address for site in blueprint.sites if "edge" in site.roles])
    if within(host, INTERNAL_ZONE):
        return _told(host, [site.address for site in blueprint.sites])
    return next((site.address for site in blueprint.sites if site.name == host), None)


def _edge_of(host: str, edges: Sequence[str]) -> str | None:
    """The edge that serves the host. An edge closes the connection for a name it does not serve, so a handshake with
    each finds the right one; if none answers, curl shows the error of the first."""
    carrying = (edge for edge in edges[1:] if _greets(edge, host))
    if len(edges) < 2 or _greets(edges[0], host):
        return edges[0] if edges else None
    return next(carrying, edges[0])


def _greets(edge: str, host: str) -> bool:
    """Whether a TLS handshake for that name succeeds; curl verifies the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((edge, HTTPS), timeout=ASK_S_MAX) as link,
            context.wrap_socket(link, server_hostname=host),
        ):
            return True
    except OSError:
        return False


def _told(host: str, servers: Sequence[str]) -> str:
    """Every node resolves all internal names; the first answer counts."""
    from dns import exception, message, query, rdatatype

    asked = message.make_query(host, rdatatype.A)
    for server in servers:
        try:
            reply = query.udp(asked, server, timeout=ASK_S_MAX, port=DNS)
        except (OSError, exception.DNSException):
            continue
        found = [str(record) for answer in reply.answer if answer.rdtype == rdatatype.A for record in answer]
        if not found:
            raise Unreachable(
                f"the DNS server of {server} does not know {host}",
                remedy="`holdfast ps` lists what runs; internal names are <component>.<service>." + INTERNAL_ZONE,
                code="unknown_name",
            )
        return sorted(found)[0]
    raise Unreachable(
        f"no node of the lab answered a DNS query for {host}",
        remedy="`holdfast lab status` shows which nodes have a dns process; to start one: holdfast lab start NODE",
        code="dns_silent",
    )
