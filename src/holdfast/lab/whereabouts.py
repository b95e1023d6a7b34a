"""Where a client outside the fleet finds a name: internal ones as the nodes' DNS says, public ones at their edge."""

import socket
import ssl
from collections.abc import Sequence

from holdfast.errors import Unreachable
from holdfast.lab.blueprint import INTERNAL_ZONE, PUBLIC_DOMAIN, Blueprint
from holdfast.model.route import HTTPS, within

ASK_S_MAX = 1.0
DNS = 53


def address_of(host: str, blueprint: Blueprint) -> str | None:
    """None for names that are none of the lab's: curl looks for them itself."""
    if within(host, PUBLIC_DOMAIN):
        return _edge_of(host, [site.address for site in blueprint.sites if "edge" in site.roles])
    if within(host, INTERNAL_ZONE):
        return _told(host, [site.address for site in blueprint.sites])
    return next((site.address for site in blueprint.sites if site.name == host), None)


def _edge_of(host: str, edges: Sequence[str]) -> str | None:
    """The edge that answers for it. An edge closes the connection of whoever asks for a name it does not carry, so of
    several the right one is found by asking; if none answers, curl says what the first one does."""
    carrying = (edge for edge in edges[1:] if _greets(edge, host))
    if len(edges) < 2 or _greets(edges[0], host):
        return edges[0] if edges else None
    return next(carrying, edges[0])


def _greets(edge: str, host: str) -> bool:
    """Whether a handshake for that name comes to an end; whom the certificate proves is curl's question."""
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
    """Every node answers for every internal name; the first that answers at all is believed."""
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
                f"the DNS of {server} knows no {host}",
                remedy="holdfast ps shows what runs; internal names are <component>.<service>." + INTERNAL_ZONE,
                code="unknown_name",
            )
        return sorted(found)[0]
    raise Unreachable(
        f"no node of the lab answered a question about {host}",
        remedy="holdfast lab status says which nodes have a dns process; holdfast lab start NODE starts one",
        code="dns_silent",
    )
