"""A key for one stream and the certificate that carries it. Made, used once, written nowhere."""

from cryptography import x509 as lib
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID

from holdfast.adapters.certificates import x509
from holdfast.ports.stream_link import CallerKey

DAYS = 2.0  # a node whose clock is a day off still takes it; the order says until when


def make(now_s: float) -> CallerKey:
    key = Ed25519PrivateKey.generate()
    subject = x509.common_name("holdfast stream")
    made = (
        x509.begun(subject, subject, key.public_key(), now_s - 86_400, DAYS)
        .add_extension(lib.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.usage(signs_certificates=False), critical=True)
        .add_extension(lib.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, None)
    )
    forms = serialization.Encoding
    return CallerKey(made.public_bytes(forms.DER), made.public_bytes(forms.PEM), x509.pkcs8(key))
