"""TLS between two nodes: each shows a certificate that it signed with its own key, and takes one key of the other.

Python's TLS lets a server ask only for certificates that it knows. So the caller sends its certificate ahead, in the
open; the server compares its key, and takes this one certificate in the handshake, which proves that the caller has
the private key.
"""

import ssl

from cryptography import x509 as lib
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.adapters.certificates import x509
from holdfast.adapters.tls import client, server
from holdfast.errors import HoldfastError, Invalid, Unreachable
from holdfast.model import ssh_key
from holdfast.ports.clock import Clock

DAYS = 2.0
AHEAD_BYTES_MAX = 2048
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME: the key is pinned, and clocks of nodes may differ


class PeerTls:
    """`private` is the content of the node's key file."""

    def __init__(self, private: bytes, clock: Clock) -> None:
        key = x509.private_key(private)
        if not isinstance(key, Ed25519PrivateKey):
            raise Invalid("a node's key is an Ed25519 key", remedy="join this machine again", code="key_type")
        self._key, self._private, self._clock = key, private, clock

    def calling(self, key: str) -> tuple[ssl.SSLContext, bytes]:
        """For a call to the node with this key; and the certificate to send ahead."""
        made = self._made()
        context = client.judged_context(lambda der: _judge(der, key))
        server.from_memory(x509.pkcs8(self._key) + made, context.load_cert_chain)
        return context, x509.der_of(made)

    def taking(self, ahead: bytes) -> ssl.SSLContext:
        """For a call by the owner of this certificate, and no other."""
        context = server.server_context(self._made(), self._private)
        context.set_alpn_protocols([])
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
        context.load_verify_locations(cadata=ahead)
        return context

    def _made(self) -> bytes:
        name = x509.common_name("holdfast-node")
        built = (
            x509.begun(name, name, self._key.public_key(), self._clock.now_s(), DAYS)
            .add_extension(lib.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.usage(signs_certificates=False), critical=True)
            .sign(self._key, None)
        )
        return built.public_bytes(serialization.Encoding.PEM)


def key_of(der: bytes) -> str:
    """The SSH line of the key that signed this certificate itself; "" if it is another kind of certificate."""
    try:
        facts = x509.facts(der)
    except HoldfastError:
        return ""
    return facts.key if facts.self_signed else ""


def _judge(der: bytes | None, key: str) -> None:
    shown = key_of(der or b"")
    if not shown or ssh_key.parse(shown).blob != ssh_key.parse(key).blob:
        found = ssh_key.fingerprint(ssh_key.parse(shown)) if shown else "none of its own"
        raise Unreachable(
            f"another machine answers: its key is {found}, and the revision names "
            f"{ssh_key.fingerprint(ssh_key.parse(key))}; nothing was sent to it",
            remedy="look which machine has the address of the node: holdfast status",
            code="wrong_peer",
        )
