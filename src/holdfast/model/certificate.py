"""What a certificate says, as far as anybody here decides by it. Values only; reading them proves nothing."""

import base64
import textwrap

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


class ChainLink(Struct, frozen=True):
    """One certificate of a chain, as far as a chain is judged by it."""

    digest: str  # sha256 of the DER
    not_before_s: float
    not_after_s: float
    key_kind: str  # "rsa", "ec", "ed25519", or "" for what nobody here accepts
    key_bits: int
    authority: bool  # says of itself that it may sign others
    self_signed: bool
    signed_by_next: bool  # the next of the chain made its signature, and the signature holds; False for the last


class ChainFacts(Struct, frozen=True):
    """A chain and a private key that were brought together: what they say, and whether they hold together."""

    digest: str  # sha256 of the whole chain as it was given, so that nobody judges one chain and shows another
    links: tuple[ChainLink, ...]  # leaf first, never none
    leaf: CertificateFacts
    serial: str  # of the leaf, hexadecimal
    serves: bool  # the leaf may be shown by a server (serverAuth)
    other_names: bool  # the leaf carries names of other kinds, too: mail, URI and so on
    key_belongs: bool  # the private key is the leaf's
    anchor: bytes  # DER of the last one: who believes it believes the chain
    own_kind: bool  # its root is bound as a node's issuing certificate is

    @property
    def not_before_s(self) -> float:
        return max(link.not_before_s for link in self.links)

    @property
    def not_after_s(self) -> float:
        """When the first of them is over: the whole chain is worth nothing after it."""
        return min(link.not_after_s for link in self.links)


def armoured(der: bytes) -> str:
    """PEM of one certificate; a matter of spelling, it reads nothing."""
    lines = textwrap.fill(base64.b64encode(der).decode("ascii"), 64)
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
