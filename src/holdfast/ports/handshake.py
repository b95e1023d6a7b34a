"""A TLS handshake with a listener: the certificate it sends, and whether that certificate proves the name."""

from typing import Protocol

from msgspec import Struct

IDLE = 424  # Envoy sends 503 under overload, and never this one


class Shown(Struct, frozen=True):
    """What the peer sent. `trouble` says why it proves nothing; "" if the handshake was verified and the question was
    answered well."""

    leaf: bytes = b""  # DER; b"" if the handshake ended earlier
    trouble: str = ""
    protocol: str = ""  # of ALPN
    is_idle: bool = False  # it routes the name as expected, and no container behind it answers


class Asked(Struct, frozen=True):
    """One request to a proxy of this fleet after its handshake was verified: does it route this public name as
    expected, and does a container behind it do its work? The proxy answers 204, or IDLE if only the first is so."""

    host: str
    path: str


class Handshake(Protocol):
    async def shown(
        self, address: str, port: int, name: str, authorities: bytes, at_most_s: float, asked: Asked | None = None
    ) -> Shown:
        """Dial, ask for `name` by SNI, verify chain, time and name against these authorities (PEM; b"" the machine's).

        With `asked`, also send that request, but only to a verified peer.

        Never raises for what the peer does: unreachable, refused and hung are reported in `trouble`.
        """
        ...
