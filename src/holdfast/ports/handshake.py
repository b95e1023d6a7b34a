"""A real TLS handshake with whoever listens somewhere: which certificate is shown, and whether it proves the name."""

from typing import Protocol

from msgspec import Struct


class Shown(Struct, frozen=True):
    """What a peer showed. `trouble` says why it proves nothing, "" if the handshake was verified."""

    leaf: bytes = b""  # DER; b"" if it did not come that far
    trouble: str = ""
    protocol: str = ""  # of ALPN


class Asked(Struct, frozen=True):
    """One small question to a proxy of ours that proved itself: are requests for this public name led where they
    should be? It is answered with 204."""

    host: str
    path: str


class Handshake(Protocol):
    async def shown(
        self, address: str, port: int, name: str, authorities: bytes, at_most_s: float, asked: Asked | None = None
    ) -> Shown:
        """Dial, ask for `name` by SNI, verify chain, time and name against these authorities (PEM; b"" the machine's).

        With `asked`, that is asked as well, of whoever proved himself.

        Never raises for what the peer does: not reached, refused and hung are troubles like others.
        """
        ...
