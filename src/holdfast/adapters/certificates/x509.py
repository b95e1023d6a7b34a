"""Certificates with `cryptography`: make the hub's certificate, whose key clients pin, and read any certificate."""

import datetime
import hashlib
import ipaddress
from collections.abc import Sequence
from typing import cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast.errors import Corrupt, Invalid
from holdfast.model.certificate import BACKDATED_S, DAY_S, HUB_DAYS, CertificateFacts, Constraints
from holdfast.trust.certificates import checked_name

CERTIFICATE_BYTES_MAX = 64 * 1024
NOWHERE = "nowhere.invalid"
EVERY_ADDRESS = (ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv6Network("::/0"))
COMMON_NAME_CHARS_MAX = 64  # X.520; a longer name appears only among the alternative names

Key = Ed25519PrivateKey | EllipticCurvePrivateKey


def make_hub_certificate(private: Ed25519PrivateKey, names: Sequence[str], now_s: float) -> bytes:
    """PEM of a certificate self-signed with the hub's own key; `names` are hostnames and addresses."""
    if not names:
        raise Invalid(
            "a hub certificate needs a hostname or an address",
            remedy="holdfast hub init --trust FINGERPRINT --name HOST",
        )
    subject = common_name(names[0])
    built = (
        begun(subject, subject, private.public_key(), now_s, HUB_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=not list(subject))
        .sign(private, None)
    )
    return built.public_bytes(serialization.Encoding.PEM)


def begun(
    subject: x509.Name, issuer: x509.Name, public: CertificatePublicKeyTypes, now_s: float, days: float
) -> x509.CertificateBuilder:
    """The fields that all our certificates share."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now_s - BACKDATED_S))
        .not_valid_after(_moment(now_s + days * DAY_S))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def common_name(text: str) -> x509.Name:
    short = len(text) <= COMMON_NAME_CHARS_MAX
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)] if short else [])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(checked_name(name))


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)


# ---- reading


def parse(content: bytes) -> x509.Certificate:
    """DER or one PEM certificate (the first of a chain)."""
    try:
        if len(content) > CERTIFICATE_BYTES_MAX:
            raise ValueError(f"it is longer than {CERTIFICATE_BYTES_MAX:,} bytes")
        if content.lstrip().startswith(b"-----"):
            return x509.load_pem_x509_certificate(content)
        return x509.load_der_x509_certificate(content)
    except ValueError as trouble:
        raise _unreadable(str(trouble)) from None


def der_of(content: bytes) -> bytes:
    return parse(content).public_bytes(serialization.Encoding.DER)


def pem_of(der: bytes) -> str:
    return parse(der).public_bytes(serialization.Encoding.PEM).decode("ascii")


def pin(der: bytes) -> str:
    """The digest by which a revision names a certificate."""
    return hashlib.sha256(der).hexdigest()


def facts(content: bytes) -> CertificateFacts:
    certificate = parse(content)
    try:
        names, addresses = _alternative(certificate)
        return CertificateFacts(
            digest=pin(certificate.public_bytes(serialization.Encoding.DER)),
            names=names,
            addresses=addresses,
            not_before_s=certificate.not_valid_before_utc.timestamp(),
            not_after_s=certificate.not_valid_after_utc.timestamp(),
            key=_line(certificate),
            self_signed=_self_signed(certificate),
            constraints=_constraints(certificate),
            bounded=_bounded(certificate),
        )
    except (ValueError, UnsupportedAlgorithm) as trouble:  # parsed late: extensions, keys, dates
        raise _unreadable(str(trouble)) from None


def _alternative(certificate: x509.Certificate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), ()
    addresses = tuple(str(address) for address in found.get_values_for_type(x509.IPAddress))
    return tuple(found.get_values_for_type(x509.DNSName)), addresses


def _constraints(certificate: x509.Certificate) -> Constraints:
    try:
        found = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return Constraints(())
    return Constraints(_trees(found.permitted_subtrees), _trees(found.excluded_subtrees))


def bounds(wanted: Constraints) -> x509.NameConstraints:
    """A permitted subtree forbids all other names of its kind; an unused subtree therefore forbids the whole kind."""
    permitted: list[x509.GeneralName] = [x509.DNSName(tree) for tree in wanted.permitted]
    excluded: list[x509.GeneralName] = [x509.DNSName(tree) for tree in wanted.excluded]
    return x509.NameConstraints(
        [*permitted, x509.RFC822Name(NOWHERE), x509.UniformResourceIdentifier(NOWHERE)],
        [*excluded, *(x509.IPAddress(network) for network in EVERY_ADDRESS)],
    )


def _bounded(certificate: x509.Certificate) -> bool:
    """True only for exactly the extensions that `bounds` makes, so that no extra entry widens them."""
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        names = certificate.extensions.get_extension_for_class(x509.NameConstraints)
    except x509.ExtensionNotFound:
        return False
    leaves_only = basic.critical and basic.value.ca and basic.value.path_length == 0
    trees = _constraints(certificate)
    return leaves_only and names.critical and bool(trees.permitted) and names.value == bounds(trees)


def _trees(subtrees: Sequence[x509.GeneralName] | None) -> tuple[str, ...]:
    return tuple(tree.value for tree in subtrees or () if isinstance(tree, x509.DNSName))


def _line(certificate: x509.Certificate) -> str:
    public = certificate.public_key()
    if not isinstance(public, Ed25519PublicKey):
        return ""
    return public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode("ascii")


def _self_signed(certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _unreadable(why: str) -> Corrupt:
    return Corrupt(
        f"cannot read a certificate: {why}",
        remedy="have a new one made: stop the daemon, move the .crt file away, start the daemon again",
        code="certificate_unreadable",
    )


# ---- keys


def private_key(content: bytes) -> Key:
    """From an OpenSSH private key file or a PEM file, without a passphrase."""
    try:
        if b"OPENSSH" in content[:40]:
            found = cast(object, serialization.load_ssh_private_key(content, None))
        else:
            found = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as trouble:
        raise Corrupt(
            f"cannot read a private key: {trouble}", remedy="restore it from your backup", code="key_unreadable"
        ) from None
    if not isinstance(found, Ed25519PrivateKey | EllipticCurvePrivateKey):
        raise Invalid("a private key is neither Ed25519 nor ECDSA", remedy="ssh-keygen -t ed25519", code="key_type")
    return found


def pkcs8(private: Key) -> bytes:
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return private.private_bytes(*form, serialization.NoEncryption())


HASH = hashes.SHA256()  # for P-256 signatures; Ed25519 uses its own hash
