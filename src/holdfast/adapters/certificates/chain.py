"""Read the facts of a certificate chain and its private key. trust/ decides whether they are acceptable."""

from functools import lru_cache
from itertools import pairwise

from cryptography import x509 as lib
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec.structs import replace

from holdfast.adapters.certificates import x509
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.certificate import ChainFacts, ChainLink

CHAIN_BYTES_MAX = 64 * 1024
LINKS_MAX = 10


def facts(chain: bytes, private: bytes) -> ChainFacts:
    found = _parsed(chain)
    leaf, last = found[0], found[-1]
    try:
        above = [*(upper for _, upper in pairwise(found)), None]
        links = tuple(_link(lower, upper) for lower, upper in zip(found, above, strict=True))
        return ChainFacts(
            digest=canonical.digest(chain),
            links=links,
            leaf=x509.facts(_der(leaf)),
            serial=f"{leaf.serial_number:x}",
            serves=_serves(leaf),
            other_names=_other_names(leaf),
            key_belongs=_belongs(leaf, private),
            anchor=_der(last),
            own_kind=len(found) == 2 and links[-1].self_signed and _bounded(_der(last)),
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as trouble:  # parsed late: extensions, keys, dates
        raise _unreadable(str(trouble)) from None


def _parsed(chain: bytes) -> list[lib.Certificate]:
    """Complete PEM blocks and nothing else: any bytes between or after them would be sent to TLS clients."""
    if len(chain) > CHAIN_BYTES_MAX:
        raise _unreadable(f"it is longer than {CHAIN_BYTES_MAX:,} bytes")
    try:
        found = lib.load_pem_x509_certificates(chain)
    except ValueError as trouble:
        raise _unreadable(str(trouble)) from None
    begun, ended = chain.count(b"-----BEGIN "), chain.count(b"-----END CERTIFICATE-----")
    if not begun == ended == len(found):
        raise _unreadable(f"it has {begun} BEGIN lines and {ended} certificate END lines")
    if len(found) > LINKS_MAX:
        raise _unreadable(f"it has more than {LINKS_MAX} certificates")
    return found


def _link(certificate: lib.Certificate, above: lib.Certificate | None) -> ChainLink:
    signed_by_next = above is not None and _signed_by(certificate, above)
    return replace(_alone(_der(certificate)), signed_by_next=signed_by_next)


@lru_cache(maxsize=64)  # all leaves of a node share the last certificate; a start reads up to two thousand leaves
def _alone(der: bytes) -> ChainLink:
    certificate = x509.parse(der)
    kind, bits = _key(certificate)
    return ChainLink(
        digest=x509.pin(der),
        not_before_s=certificate.not_valid_before_utc.timestamp(),
        not_after_s=certificate.not_valid_after_utc.timestamp(),
        key_kind=kind,
        key_bits=bits,
        authority=_authority(certificate),
        self_signed=_signed_by(certificate, certificate),
        signed_by_next=False,
    )


@lru_cache(maxsize=64)
def _bounded(der: bytes) -> bool:
    return x509.facts(der).bounded


def _key(certificate: lib.Certificate) -> tuple[str, int]:
    public = certificate.public_key()
    if isinstance(public, RSAPublicKey):
        return "rsa", public.key_size
    if isinstance(public, EllipticCurvePublicKey):
        return "ec", public.curve.key_size
    return ("ed25519", 256) if isinstance(public, Ed25519PublicKey) else ("", 0)


def _authority(certificate: lib.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(lib.BasicConstraints).value.ca
    except lib.ExtensionNotFound:
        return False


def _serves(leaf: lib.Certificate) -> bool:
    try:
        return ExtendedKeyUsageOID.SERVER_AUTH in leaf.extensions.get_extension_for_class(lib.ExtendedKeyUsage).value
    except lib.ExtensionNotFound:
        return False


def _other_names(leaf: lib.Certificate) -> bool:
    try:
        names = leaf.extensions.get_extension_for_class(lib.SubjectAlternativeName).value
    except lib.ExtensionNotFound:
        return False
    return any(not isinstance(name, lib.DNSName | lib.IPAddress) for name in names)


def _signed_by(certificate: lib.Certificate, above: lib.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _belongs(leaf: lib.Certificate, private: bytes) -> bool:
    """False also for an unreadable key. No error message contains the key's bytes."""
    try:
        key = serialization.load_pem_private_key(private, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(*form) == leaf.public_key().public_bytes(*form)


def _der(certificate: lib.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def _unreadable(why: str) -> Corrupt:
    return Corrupt(
        f"cannot read a certificate chain: {why}",
        remedy="have it issued again; `holdfast node show NAME` shows the time of the next attempt",
        code="certificate_unreadable",
    )
