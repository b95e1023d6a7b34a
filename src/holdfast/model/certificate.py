"""What a certificate says, as far as anybody here decides by it. Values only; reading them proves nothing."""

from msgspec import Struct

HUB_DAYS = 90
LEAF_DAYS = 90
ISSUER_DAYS = 3650
BACKDATED_S = 3600  # so that a peer whose clock is a little behind does not see tomorrow's certificate
DAY_S = 86_400


class Constraints(Struct, frozen=True):
    """Subtrees of DNS in which an issuer may name anything; `excluded` wins. No address, no e-mail, no URI, ever."""

    permitted: tuple[str, ...]
    excluded: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints(())


class CertificateFacts(Struct, frozen=True):
    digest: str  # sha256 of the DER in hexadecimal digits: what a revision pins
    names: tuple[str, ...]  # DNS names it was made for
    addresses: tuple[str, ...]  # IP addresses it was made for
    not_before_s: float
    not_after_s: float
    key: str = ""  # the SSH line of an Ed25519 key, "" for any other
    self_signed: bool = False  # its own key made its signature, and the signature holds
    constraints: Constraints = NO_CONSTRAINTS  # of an issuing certificate
    bounded: bool = False  # issues leaves only, critically constrained, and for hostnames alone


class Issued(Struct, frozen=True):
    """A chain to show, leaf first, and the private key that goes with it; both PEM."""

    chain: bytes
    private: bytes
    facts: CertificateFacts  # of the leaf

    def __repr__(self) -> str:  # never the key, whatever a traceback or a log prints
        return f"Issued({', '.join(self.facts.names)})"
