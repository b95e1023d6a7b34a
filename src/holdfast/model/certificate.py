"""The facts of certificates and chains that decisions use. Values only; parsing them proves nothing."""

import base64

from msgspec import Struct

HUB_DAYS = 90
LEAF_DAYS = 90
ISSUER_DAYS = 3650
BACKDATED_S = 3600  # so that a peer whose clock is a little behind does not see it as not valid yet
DAY_S = 86_400


class Constraints(Struct, frozen=True):
    """DNS subtrees in which an issuer may name any host; `excluded` wins. Never an address, e-mail or URI."""

    permitted: tuple[str, ...]
    excluded: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints(())


class CertificateFacts(Struct, frozen=True):
    digest: str  # sha256 of the DER in hexadecimal digits: what a revision pins
    names: tuple[str, ...]  # its DNS names
    addresses: tuple[str, ...]  # its IP addresses
    not_before_s: float
    not_after_s: float
    key: str = ""  # the SSH line of an Ed25519 key, "" for any other
    self_signed: bool = False  # its own key signed it, and the signature is valid
    constraints: Constraints = NO_CONSTRAINTS  # of an issuing certificate
    bounded: bool = False  # issues leaves only, critically constrained, and for hostnames only


class Issued(Struct, frozen=True):
    """A chain to serve, leaf first, and its private key; both PEM."""

    chain: bytes
    private: bytes
    facts: CertificateFacts  # of the leaf

    def __repr__(self) -> str:  # never the key, in tracebacks and logs
        return f"Issued({', '.join(self.facts.names)})"


class ChainLink(Struct, frozen=True):
    """The facts of one certificate of a chain."""

    digest: str  # sha256 of the DER
    not_before_s: float
    not_after_s: float
    key_kind: str  # "rsa", "ec", "ed25519", or "" for a kind that is not accepted
    key_bits: int
    authority: bool  # it claims that it may sign others
    self_signed: bool
    signed_by_next: bool  # the next of the chain signed it, and the signature is valid; False for the last


class ChainFacts(Struct, frozen=True):
    """The facts of a chain and a private key, and whether they belong together."""

    digest: str  # sha256 of the whole chain as given, so that no other chain is served than the one judged
    links: tuple[ChainLink, ...]  # leaf first, never none
    leaf: CertificateFacts
    serial: str  # of the leaf, hexadecimal
    serves: bool  # the leaf is valid for servers (serverAuth)
    other_names: bool  # the leaf also has names of other kinds: mail, URI and so on
    key_belongs: bool  # the private key is the leaf's
    anchor: bytes  # DER of the last one: a client that trusts it trusts the chain
    own_kind: bool  # its root has the bounds of a node's issuing certificate

    @property
    def not_before_s(self) -> float:
        return max(link.not_before_s for link in self.links)

    @property
    def not_after_s(self) -> float:
        """When the first of them expires: the chain is not valid after it."""
        return min(link.not_after_s for link in self.links)


def armoured(der: bytes) -> str:
    """PEM of one certificate; encodes only, parses nothing."""
    text = base64.b64encode(der).decode("ascii")
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
