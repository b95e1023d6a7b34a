"""What a server of ours shows: TLS 1.3 only, no tickets, and a certificate that can be changed while it runs."""

import os
import ssl
from collections.abc import Callable

from holdfast.adapters.certificates import x509
from holdfast.errors import Corrupt
from holdfast.model.certificate import Issued


def server_context(chain: bytes, private: bytes) -> ssl.SSLContext:
    """`chain` is PEM, leaf first; `private` an OpenSSH key file's content or PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    # Clients keep their one connection; a ticket would be a second way in, with a key that is never rotated.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    reload(context, chain, private)
    return context


def reload(context: ssl.SSLContext, chain: bytes, private: bytes) -> None:
    """From the next handshake on this certificate is shown; connections that stand are left alone."""
    with_key = x509.pkcs8(x509.private_key(private)) + chain
    from_memory(with_key, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain)  # never half of a bad pair
    from_memory(with_key, context.load_cert_chain)


def from_memory(content: bytes, load: Callable[[str], None]) -> None:
    """OpenSSL reads files only; this one has no name in any directory, and no other process can open it."""
    handle = os.memfd_create("holdfast-tls", os.MFD_CLOEXEC)
    try:
        os.fchmod(handle, 0o600)
        view = memoryview(content)
        while view:
            view = view[os.write(handle, view) :]
        load(f"/proc/self/fd/{handle}")
    except ssl.SSLError as trouble:
        raise Corrupt(
            f"certificate and key do not belong together: {trouble.reason}",
            remedy="move the .crt file aside; the next start creates it again",
            code="certificate_mismatch",
        ) from None
    finally:
        os.close(handle)


class IssuedTls:
    """The same for what a node issued to itself."""

    def context(self, issued: Issued) -> ssl.SSLContext:
        return server_context(issued.chain, issued.private)

    def reload(self, context: ssl.SSLContext, issued: Issued) -> None:
        reload(context, issued.chain, issued.private)
