"""TLS contexts of clients: TLS 1.3 only, and the handshake fails unless the peer proves its identity.

The proof is part of the handshake, so a caller cannot forget it: through a context made here, neither a plain socket
nor asyncio nor uvloop writes a byte to another peer.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Any

from holdfast.errors import HoldfastError, Invalid, Unreachable
from holdfast.trust import certificates

Judge = Callable[[bytes | None], None]


class WrongHub(Unreachable):
    """The peer that answered is not our hub. Loops try again; a command ends as after a forged answer."""

    code = "wrong_hub"
    exit_code = 7


class PeerRefused(ssl.SSLCertVerificationError):
    """How a refusal travels through libraries that know only TLS's own failures; `refusal` finds it again."""

    def __init__(self, trouble: HoldfastError) -> None:
        super().__init__(1, trouble.message)
        self.trouble = trouble


def pinned_context(hub_key: str, host: str, now_s: Callable[[], float]) -> ssl.SSLContext:
    """For calling `host` and finding there the hub with this key, whatever its certificate of the season is."""
    return judged_context(lambda der: check_peer(der, hub_key, host, now_s()))


def public_context() -> ssl.SSLContext:
    """For a hub whose key is not pinned: the system's authorities, ordinary verification."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def issued_context(issuer: bytes) -> ssl.SSLContext:
    """TLS 1.3, and one authority in the whole world: this issuing certificate, with its constraints."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # asks for a certificate and for the name in it
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cadata=issuer)
    except (ssl.SSLError, ValueError) as trouble:
        raise Invalid(
            f"a pinned issuing certificate cannot be read: {trouble}",
            remedy="`holdfast node show NAME`; `holdfast apply` pins the one it has now",
            code="certificate_unreadable",
        ) from None
    return context


def judged_context(judge: Judge) -> ssl.SSLContext:
    """OpenSSL proves that the peer holds the key of its certificate; whether that is the right one, `judge` says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    class Judged(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            _judge(judge, self.getpeercert(binary_form=True))

    class JudgedSocket(ssl.SSLSocket):
        def do_handshake(self, *settings: Any) -> None:
            super().do_handshake(*settings)
            _judge(judge, self.getpeercert(binary_form=True))

    context.sslobject_class = Judged
    context.sslsocket_class = JudgedSocket
    return context


def _judge(judge: Judge, der: bytes | None) -> None:
    try:
        judge(der)
    except HoldfastError as trouble:
        raise PeerRefused(trouble) from trouble


def refusal(trouble: BaseException | None) -> HoldfastError | None:
    """Why the peer was refused, if that is what lies at the bottom of this failure."""
    while trouble is not None:
        if isinstance(trouble, PeerRefused):
            return trouble.trouble
        trouble = trouble.__cause__ or trouble.__context__
    return None


def check_peer(der: bytes | None, hub_key: str, host: str, now_s: float) -> None:
    """Key, self-signature, period and name of what the peer showed; raises WrongHub with the reason."""
    from holdfast.adapters.certificates import x509

    if not der:
        raise wrong(host, "it showed no certificate")
    try:
        shown = x509.facts(der)
    except HoldfastError as trouble:
        raise wrong(host, trouble.message) from None
    complaint = certificates.hub_complaint(shown, hub_key, host, now_s)
    if complaint is not None:
        raise wrong(host, complaint)


def secured(sock: socket.socket, host: str, hub_key: str, now_s: Callable[[], float]) -> ssl.SSLSocket:
    """A connected socket inside TLS whose peer is proven; `hub_key` "" asks the system's authorities instead.

    Raises WrongHub, or OSError as sockets do; the socket is closed then.
    """
    context = pinned_context(hub_key, host, now_s) if hub_key else public_context()
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except PeerRefused as refused:
        raise refused.trouble from None
    except ssl.SSLCertVerificationError as trouble:
        raise unpinned(host, trouble.verify_message) from None


def wrong(host: str, why: str) -> WrongHub:
    return WrongHub(
        f"the machine at {host} did not prove to be the hub: {why}; nothing was sent to it",
        remedy="compare the pinned key ([fleet] hub_key or HOLDFAST_HUB_KEY; on a node, the token's) with what "
        "`holdfast hub check` prints on the hub's machine; and look at both clocks",
    )


def unpinned(host: str, why: str) -> WrongHub:
    """There is no pinned key to compare with; the caller needs one first."""
    return WrongHub(
        f"the machine at {host} did not prove to be the hub: {why}, and no key of it is pinned; nothing was sent to it",
        remedy='add hub_key = "ssh-ed25519 …" to [fleet] in fleet.toml, as '
        "`holdfast hub check` prints it on the hub's machine, or export it as HOLDFAST_HUB_KEY",
    )
