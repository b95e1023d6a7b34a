"""Make a node's issuing certificate and sign leaves with it: P-256, no sub-CAs, name-constrained."""

from collections.abc import Sequence

from cryptography import x509 as lib
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from holdfast.adapters.certificates import x509
from holdfast.model.certificate import DAY_S, ISSUER_DAYS, LEAF_DAYS, Constraints, Issued
from holdfast.trust.certificates import checked_names


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def make_issuer(private: ec.EllipticCurvePrivateKey, node: str, wanted: Constraints, now_s: float) -> bytes:
    """PEM. The subject includes the key id: nodes of two fleets may share a name, and chains must stay distinct."""
    identifier = lib.SubjectKeyIdentifier.from_public_key(private.public_key()).digest.hex()
    subject = x509.common_name(f"holdfast {node} {identifier[:12]}")
    made = (
        x509.begun(subject, subject, private.public_key(), now_s, ISSUER_DAYS)
        .add_extension(lib.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.usage(signs_certificates=True), critical=True)
        .add_extension(x509.bounds(wanted), critical=True)
        .sign(private, x509.HASH)
    )
    return made.public_bytes(serialization.Encoding.PEM)


def issue(issuer: bytes, private: ec.EllipticCurvePrivateKey, names: Sequence[str], now_s: float) -> Issued:
    """A server leaf for these names. Refused before signing if a name lies outside the issuer's constraints."""
    above = x509.parse(issuer)
    about = x509.facts(issuer)
    plain = checked_names(about.constraints, names)
    key = make_key()
    subject = x509.common_name(plain[0])
    days = min(float(LEAF_DAYS), (about.not_after_s - now_s) / DAY_S)  # never longer than the issuer
    identifier = above.extensions.get_extension_for_class(lib.SubjectKeyIdentifier).value
    leaf = (
        x509.begun(subject, above.subject, key.public_key(), now_s, days)
        .add_extension(lib.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.usage(signs_certificates=False), critical=True)
        .add_extension(lib.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(lib.SubjectAlternativeName([lib.DNSName(name) for name in plain]), critical=not list(subject))
        .add_extension(lib.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(private, x509.HASH)
    )
    leaf.verify_directly_issued_by(above)
    shown = leaf.public_bytes(serialization.Encoding.PEM)
    return Issued(shown + above.public_bytes(serialization.Encoding.PEM), x509.pkcs8(key), x509.facts(shown))
