"""Chains of certificates, good and bad, as any authority might send them: real ones, signed by real keys."""

from collections.abc import Sequence

from cryptography import x509 as lib
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from holdfast.adapters.certificates import x509

DAYS = 90.0
NAME = "www.example.test"


def pem(certificate: lib.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Authority:
    """A root and an intermediate, and whatever they are asked to sign."""

    def __init__(self, now_s: float, common_name: str = "Public Root") -> None:
        self.now_s = now_s
        self._root_key, self._key = _key(), _key()
        self.root = self._above(common_name, common_name, self._root_key, self._root_key)
        self.intermediate = self._above(f"{common_name} R1", common_name, self._key, self._root_key)

    def _above(
        self, subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
    ) -> lib.Certificate:
        return (
            x509.begun(x509.common_name(subject), x509.common_name(issuer), key.public_key(), self.now_s, 3650)
            .add_extension(lib.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.usage(signs_certificates=True), critical=True)
            .sign(signer, x509.HASH)
        )

    def leaf(
        self,
        names: Sequence[str] = (NAME,),
        made_s: float | None = None,
        days: float = DAYS,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
        others: Sequence[lib.GeneralName] = (),
        ca: bool = False,
        serves: bool = True,
    ) -> tuple[lib.Certificate, bytes]:
        """The certificate, and PEM of its private key."""
        private = key or _key()
        usage = ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH
        alternative = [*(lib.DNSName(name) for name in names), *others]
        begun = x509.begun(
            x509.common_name("leaf"),
            self.intermediate.subject,
            private.public_key(),
            self.now_s if made_s is None else made_s,
            days,
        )
        made = (
            begun.add_extension(lib.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(lib.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(lib.SubjectAlternativeName(alternative), critical=False)
            .sign(self._key, x509.HASH)
        )
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return made, private.private_bytes(*form, serialization.NoEncryption())


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())
