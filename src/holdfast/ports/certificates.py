"""A node's own certificate issuer, and leaf certificates for names within its constraints. Needs no hub."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.certificate import CertificateFacts, ChainFacts, Constraints, Issued


class Certificates(Protocol):
    def issuer(self, node: str, wanted: Constraints, now_s: float) -> bytes:
        """DER of the issuing certificate; created, or reissued with the same key when the constraints changed.

        Durable before it is returned. The private key stays on this node.
        """
        ...

    def serving(self, names: Sequence[str], now_s: float, anew: bool = False) -> Issued:
        """The certificate of this node's listener, renewed when due or on request, and stored. Refuses other names."""
        ...

    def issue(self, names: Sequence[str], now_s: float) -> Issued:
        """A new leaf with a new key; the caller stores it. Refuses names outside the constraints before signing."""
        ...

    def facts(self, certificate: bytes) -> CertificateFacts:
        """The contents of a certificate (DER, or the first of a PEM chain). Raises Corrupt for anything else."""
        ...

    def chain(self, chain: bytes, private: bytes) -> ChainFacts:
        """The facts of a chain (PEM, leaf first) and a private key; trust/servable.py judges them.

        Raises Corrupt for bytes that cannot be parsed. It verifies nothing and contacts no other machine.
        """
        ...

    def current(self) -> bytes:
        """DER of the current issuing certificate. Raises `no_issuer` while there is none."""
        ...
