"""A node's own issuer: its certificate for others to pin, and leaves for names within its constraints. Needs no hub."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.certificate import CertificateFacts, ChainFacts, Constraints, Issued


class Certificates(Protocol):
    def issuer(self, node: str, wanted: Constraints, now_s: float) -> bytes:
        """DER of the issuing certificate; made, or made anew with the same key, when the rules want another one.

        On the disk before it is returned. The private key stays here.
        """
        ...

    def serving(self, names: Sequence[str], now_s: float, anew: bool = False) -> Issued:
        """What this node's listener shows, renewed when due or asked for, and kept. Refuses names out of bounds."""
        ...

    def issue(self, names: Sequence[str], now_s: float) -> Issued:
        """A fresh leaf with a fresh key, kept by the caller. Refuses names outside the constraints before signing."""
        ...

    def facts(self, certificate: bytes) -> CertificateFacts:
        """What a certificate (DER, or the first of a PEM chain) says. Raises Corrupt for anything else."""
        ...

    def chain(self, chain: bytes, private: bytes) -> ChainFacts:
        """What a chain (PEM, leaf first) and a private key say of each other, to be judged by trust/servable.py.

        Raises Corrupt for what cannot be read at all. It proves nothing and asks nobody.
        """
        ...

    def current(self) -> bytes:
        """DER of the issuing certificate in force. Refuses while there is none: `no_issuer`."""
        ...
