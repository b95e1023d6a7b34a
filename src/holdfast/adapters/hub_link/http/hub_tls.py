"""TLS to a hub: the hub's key is proven before the first byte is sent. The fast path of adapters/tls for commands."""

from __future__ import annotations

import socket
import ssl

from holdfast.adapters.hub_link.http import hub_certificate
from holdfast.adapters.tls import client
from holdfast.errors import HoldfastError
from holdfast.model.certificate import CertificateFacts
from holdfast.trust import certificates


def secured(sock: socket.socket, host: str, hub_key: str, now_s: float) -> tuple[ssl.SSLSocket, str]:
    """The socket inside TLS, and the public line of the key the hub has proven; "" if it is not an Ed25519 key.

    Without `hub_key` the system's authorities decide, in the ordinary way.
    """

    def judge(der: bytes | None) -> None:
        complaint = certificates.hub_complaint(_facts(der or b"", host), hub_key, host, now_s)
        if complaint is not None:
            raise client.wrong(host, complaint)

    context = client.judged_context(judge) if hub_key else client.public_context()
    try:
        inside = context.wrap_socket(sock, server_hostname=host.encode("ascii"))  # text would load IDNA tables
    except client.PeerRefused as refused:
        raise refused.trouble from None
    except ssl.SSLCertVerificationError as trouble:
        raise client.unpinned(host, trouble.verify_message) from None
    return inside, hub_key or _facts(inside.getpeercert(binary_form=True) or b"", host).key


def _facts(der: bytes, host: str) -> CertificateFacts:
    try:
        return hub_certificate.facts(der)
    except ValueError:
        return _by_library(der, host)


def _by_library(der: bytes, host: str) -> CertificateFacts:
    from holdfast.adapters.certificates import x509

    try:
        return x509.facts(der)
    except HoldfastError as trouble:
        raise client.wrong(host, trouble.message) from None
