"""SSHSIG signatures: format and verification. Pure; does not decide who may sign what."""

import binascii
import hashlib
from collections.abc import Callable, Mapping

import msgspec

from holdfast.errors import Corrupt, Invalid
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey

ARMOUR_CHARS_MAX = 16 * 1024
HASHES = frozenset({"sha256", "sha512"})
_MAGIC, _VERSION = b"SSHSIG", 1
_HEADER, _FOOTER, _LINE_CHARS = "-----BEGIN SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n", 70
_USER_PRESENT, _USER_VERIFIED = 0x01, 0x04
_SIGN_AGAIN = "let the operator sign these exact bytes again: holdfast sign FILE"


class ParsedSignature(msgspec.Struct, frozen=True):
    """A well-formed signature. It proves nothing before `verify`."""

    key: PublicKey
    namespace: str
    hash_algorithm: str
    signature: bytes


class SignatureFacts(msgspec.Struct, frozen=True):
    """What a hardware key reports about the signing; all unset for a key in software."""

    touched: bool = False
    user_verified: bool = False
    counter: int = 0


# --- framing ---


def namespace_bytes(namespace: str) -> bytes:
    if not namespace or not namespace.isprintable():
        raise Invalid(f"{namespace!r} is not a signature namespace", remedy="name one, such as holdfast-revision")
    return namespace.encode()


def _known_hash(hash_algorithm: str) -> str:
    if hash_algorithm not in HASHES:
        raise Invalid(f"signatures cannot use the hash {hash_algorithm!r}", remedy="use sha512 (or sha256)")
    return hash_algorithm


def signed_data(message: bytes, namespace: str, hash_algorithm: str = "sha512") -> bytes:
    """The bytes that the key really signs."""
    digest = hashlib.new(_known_hash(hash_algorithm), message).digest()
    return _MAGIC + ssh_key.pack(namespace_bytes(namespace), b"", hash_algorithm.encode(), digest)


def armour(key: PublicKey, namespace: str, signature_blob: bytes, hash_algorithm: str = "sha512") -> str:
    """Frame a signature as `ssh-keygen -Y sign` prints it."""
    hash_name = _known_hash(hash_algorithm).encode()
    body = ssh_key.pack(key.blob, namespace_bytes(namespace), b"", hash_name, signature_blob)
    return _render(_MAGIC + _VERSION.to_bytes(4, "big") + body)


def _render(blob: bytes) -> str:
    text = binascii.b2a_base64(blob, newline=False).decode("ascii")
    lines = (text[at : at + _LINE_CHARS] + "\n" for at in range(0, len(text), _LINE_CHARS))
    return _HEADER + "".join(lines) + _FOOTER


def _blob(armoured: str) -> bytes:
    if len(armoured) > ARMOUR_CHARS_MAX:
        raise ValueError(f"it is longer than {ARMOUR_CHARS_MAX} characters")
    body = armoured.removeprefix(_HEADER).removesuffix(_FOOTER).replace("\n", "")
    try:
        blob = binascii.a2b_base64(body, strict_mode=True)
    except ValueError:
        raise ValueError("its armour is damaged") from None
    # One signature has one text: other line breaks, padding or a second armour would be a second text for it.
    if _render(blob) != armoured:
        raise ValueError("its armour does not have the layout of ssh-keygen")
    return blob


def _parse(armoured: str) -> ParsedSignature:
    blob = _blob(armoured)
    if blob[:6] != _MAGIC or int.from_bytes(blob[6:10], "big") != _VERSION:
        raise ValueError("it is not an SSHSIG of version 1")
    parts = ssh_key.strings(blob[10:])
    if len(parts) != 5:
        raise ValueError(f"it has {len(parts)} fields instead of 5")
    key_blob, namespace, reserved, hash_name, signature = parts
    if reserved:  # not covered by the signature, so an attacker could change it
        raise ValueError("its reserved field is not empty")
    key, hash_algorithm = ssh_key.from_blob(key_blob), _known_hash(hash_name.decode())
    namespace_bytes(namespace.decode())
    return ParsedSignature(key, namespace.decode(), hash_algorithm, signature)


def parse(armoured: str) -> ParsedSignature:
    """Parse a signature strictly. This proves nothing."""
    try:
        return _parse(armoured)
    except Invalid as trouble:
        raise _refusal(trouble.message) from None
    except ValueError as trouble:
        raise _refusal(str(trouble)) from None


def _refusal(why: str, remedy: str = _SIGN_AGAIN) -> Corrupt:
    return Corrupt(f"the signature is refused: {why}", remedy=remedy, code="signature_invalid")


# --- proof, one check per type of key; a check returns facts or raises ---


def _ed25519(point: bytes, signature: bytes, data: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    Ed25519PublicKey.from_public_bytes(point).verify(signature, data)


def _ecdsa(curve_name: bytes, point: bytes, signature: bytes, data: bytes) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    curve, digest = {
        b"nistp256": (ec.SECP256R1(), hashes.SHA256()),
        b"nistp384": (ec.SECP384R1(), hashes.SHA384()),
        b"nistp521": (ec.SECP521R1(), hashes.SHA512()),
    }[curve_name]
    r, s = (ssh_key.integer(part) for part in _exactly(2, ssh_key.strings(signature)))
    public = ec.EllipticCurvePublicKey.from_encoded_point(curve, point)
    public.verify(utils.encode_dss_signature(r, s), data, ec.ECDSA(digest))


def _rsa(exponent: bytes, modulus: bytes, algorithm: bytes, signature: bytes, data: bytes) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    digests: Mapping[bytes, hashes.HashAlgorithm]
    digests = {b"rsa-sha2-256": hashes.SHA256(), b"rsa-sha2-512": hashes.SHA512()}  # never SHA-1
    if algorithm not in digests:
        raise ValueError(f"an RSA key signed with {algorithm[:40]!r} instead of rsa-sha2-256 or rsa-sha2-512")
    public = rsa.RSAPublicNumbers(ssh_key.integer(exponent), ssh_key.integer(modulus)).public_key()
    public.verify(signature, data, padding.PKCS1v15(), digests[algorithm])


def _exactly(count: int, parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    if len(parts) != count:
        raise ValueError(f"a part of it has {len(parts)} fields instead of {count}")
    return parts


def _signature_of(key: PublicKey, blob: bytes) -> bytes:
    algorithm, signature = _exactly(2, ssh_key.strings(blob))
    if algorithm != key.type.encode():
        raise ValueError(f"a {key.type} key signed with {algorithm[:40]!r}")
    return signature


def _software_ed25519(key: PublicKey, blob: bytes, data: bytes) -> SignatureFacts:
    (point,) = ssh_key.fields(key)
    _ed25519(point, _signature_of(key, blob), data)
    return SignatureFacts()


def _software_ecdsa(key: PublicKey, blob: bytes, data: bytes) -> SignatureFacts:
    curve_name, point = ssh_key.fields(key)
    _ecdsa(curve_name, point, _signature_of(key, blob), data)
    return SignatureFacts()


def _software_rsa(key: PublicKey, blob: bytes, data: bytes) -> SignatureFacts:
    exponent, modulus = ssh_key.fields(key)
    algorithm, signature = _exactly(2, ssh_key.strings(blob))
    _rsa(exponent, modulus, algorithm, signature, data)
    return SignatureFacts()


def _hardware(prove: Callable[..., None]) -> Callable[[PublicKey, bytes, bytes], SignatureFacts]:
    """A FIDO key signs its application, its flags and its counter around the hash of the message."""

    def check(key: PublicKey, blob: bytes, data: bytes) -> SignatureFacts:
        *point, application = ssh_key.fields(key)
        flags_and_counter = blob[-5:]
        said = hashlib.sha256(application).digest() + flags_and_counter + hashlib.sha256(data).digest()
        prove(*point, _signature_of(key, blob[:-5]), said)
        flags = flags_and_counter[0]
        if not flags & _USER_PRESENT:
            raise ValueError("the security key was not touched; use a key made without -O no-touch-required")
        return SignatureFacts(True, bool(flags & _USER_VERIFIED), int.from_bytes(flags_and_counter[1:], "big"))

    return check


_CHECKS: Mapping[str, Callable[[PublicKey, bytes, bytes], SignatureFacts]] = {
    "ssh-ed25519": _software_ed25519,
    "ssh-rsa": _software_rsa,
    "ecdsa-sha2-nistp256": _software_ecdsa,
    "ecdsa-sha2-nistp384": _software_ecdsa,
    "ecdsa-sha2-nistp521": _software_ecdsa,
    "sk-ssh-ed25519@openssh.com": _hardware(_ed25519),
    "sk-ecdsa-sha2-nistp256@openssh.com": _hardware(_ecdsa),
}


def verify(message: bytes, armoured: str, namespace: str, key: PublicKey) -> SignatureFacts:
    """Prove that this key signed this message for this namespace, or raise."""
    parsed = parse(armoured)
    if parsed.key.blob != key.blob or parsed.key.type != key.type:
        raise _refusal(f"it was made by {ssh_key.fingerprint(parsed.key)}, not by {ssh_key.fingerprint(key)}")
    return check(message, parsed, namespace)


def check(message: bytes, parsed: ParsedSignature, namespace: str) -> SignatureFacts:
    """Prove that the key in this signature made it over this message; the caller knows whose key it is."""
    from cryptography.exceptions import InvalidSignature

    if parsed.namespace != namespace:
        raise _refusal(f"it was made for {parsed.namespace[:60]!r}, not for {namespace!r}")
    data = signed_data(message, namespace, parsed.hash_algorithm)
    try:
        return _CHECKS[parsed.key.type](parsed.key, parsed.signature, data)
    except InvalidSignature:
        raise _refusal(f"{ssh_key.fingerprint(parsed.key)} did not sign these bytes") from None
    except ValueError as trouble:
        raise _refusal(str(trouble)) from None
