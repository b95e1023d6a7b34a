"""An SSH public key: its line, its bytes, its fingerprint. Pure; checks the form of a key, never a signature."""

import binascii
from collections.abc import Callable, Mapping

import msgspec

from holdfast.errors import Invalid

LINE_CHARS_MAX = 16 * 1024
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 16384
_PASTE = "paste the one line that this prints: ssh-keygen -y -f PRIVATE_KEY_FILE"
MAKE_NEW = "make a supported key: ssh-keygen -t ed25519; for one that needs a touch: ssh-keygen -t ed25519-sk"


class PublicKey(msgspec.Struct, frozen=True):
    """Two keys are the same key when their blobs are equal; the comment is only a label."""

    type: str
    blob: bytes
    comment: str = ""


# --- the encoding of RFC 4251 that keys, signatures and agents share ---


def take(data: bytes, offset: int) -> tuple[bytes, int]:
    """Read one length-prefixed string; returns it and where the next one starts."""
    start = offset + 4
    end = start + int.from_bytes(data[offset:start], "big")
    if start > len(data) or end > len(data):
        raise ValueError("it is incomplete")
    return data[start:end], end


def strings(data: bytes) -> tuple[bytes, ...]:
    """Read data that consists of strings only, up to its last byte."""
    found, offset = [], 0
    while offset < len(data):
        value, offset = take(data, offset)
        found.append(value)
    return tuple(found)


def pack(*values: bytes) -> bytes:
    return b"".join(len(value).to_bytes(4, "big") + value for value in values)


def integer(mpint: bytes) -> int:
    """Read a positive mpint. Only the shortest form is accepted, so that one number has one encoding."""
    value = int.from_bytes(mpint, "big", signed=True)
    if value <= 0 or pack_integer(value) != mpint:
        raise ValueError("it has a number that is not positive or not in its shortest form")
    return value


def pack_integer(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


# --- the fields of each type of key: one check per field after the type ---

Check = Callable[[bytes], None]


def _ed25519_point(value: bytes) -> None:
    if len(value) != 32:
        raise ValueError(f"its Ed25519 point has {len(value)} bytes instead of 32")


def _exponent(value: bytes) -> None:
    exponent = integer(value)
    if exponent < 3 or exponent % 2 == 0 or exponent.bit_length() > 64:
        raise ValueError("its RSA exponent is not an odd number between 3 and 2^64")


def _modulus(value: bytes) -> None:
    bits = integer(value).bit_length()
    if not RSA_BITS_MIN <= bits <= RSA_BITS_MAX:
        raise ValueError(f"its RSA modulus has {bits} bits; allowed are {RSA_BITS_MIN} to {RSA_BITS_MAX}")


def _curve(name: bytes) -> Check:
    def check(value: bytes) -> None:
        if value != name:
            raise ValueError(f"it names another curve than {name.decode()}")

    return check


def _curve_point(coordinate_bytes: int) -> Check:
    def check(value: bytes) -> None:
        if len(value) != 1 + 2 * coordinate_bytes or value[0] != 4:
            raise ValueError("its curve point is not an uncompressed point of that curve")

    return check


def _application(value: bytes) -> None:
    if not value or not value.isascii() or not value.decode("ascii").isprintable():
        raise ValueError("its application is not printable text without spaces, such as ssh:")


_FIELDS: Mapping[str, tuple[Check, ...]] = {
    "ssh-ed25519": (_ed25519_point,),
    "ssh-rsa": (_exponent, _modulus),
    "ecdsa-sha2-nistp256": (_curve(b"nistp256"), _curve_point(32)),
    "ecdsa-sha2-nistp384": (_curve(b"nistp384"), _curve_point(48)),
    "ecdsa-sha2-nistp521": (_curve(b"nistp521"), _curve_point(66)),
    "sk-ssh-ed25519@openssh.com": (_ed25519_point, _application),
    "sk-ecdsa-sha2-nistp256@openssh.com": (_curve(b"nistp256"), _curve_point(32), _application),
}
TYPES = frozenset(_FIELDS)


def _refusal(why: str, remedy: str = _PASTE) -> Invalid:
    return Invalid(f"this is not a usable SSH public key: {why}", remedy=remedy)


def fields(key: PublicKey) -> tuple[bytes, ...]:
    """The parts of a key after its type, each checked for its form."""
    if key.type not in _FIELDS:
        raise _refusal(f"keys of type {key.type[:60]!r} are not supported", MAKE_NEW)
    checks = _FIELDS[key.type]
    try:
        inner, *values = strings(key.blob) or (b"",)
        if inner != key.type.encode():
            raise ValueError(f"the line names the type {key.type}, the key itself {inner[:60]!r}")
        if len(values) != len(checks):
            raise ValueError(f"it has {len(values)} fields instead of {len(checks)}")
        for check, value in zip(checks, values, strict=True):
            check(value)
    except ValueError as trouble:
        raise _refusal(str(trouble)) from None
    return tuple(values)


def from_blob(blob: bytes, comment: str = "") -> PublicKey:
    """Make a key from its bytes, as agents, signatures and key files have it."""
    try:
        inner = take(blob, 0)[0].decode("ascii")
    except ValueError:
        raise _refusal("it does not begin with the name of its type") from None
    key = PublicKey(inner, blob, comment)
    fields(key)
    return key


def parse(line: str) -> PublicKey:
    """Read one line of a .pub file: type, base64, and perhaps a comment."""
    if len(line) > LINE_CHARS_MAX:
        raise _refusal(f"the line is longer than {LINE_CHARS_MAX} characters")
    text = line.strip(" \t\r\n").replace("\t", " ")
    if not text.isprintable():
        raise _refusal("it is more than one line, or has control characters")
    type_, _, rest = text.partition(" ")
    if type_ not in TYPES and TYPES & set(text.replace('"', " ").split()):
        raise _refusal("there are options before the key type", "remove everything before the key type")
    encoded, _, comment = rest.strip(" ").partition(" ")
    key = PublicKey(type_, _decode(encoded), comment.strip(" "))
    fields(key)
    return key


def _decode(encoded: str) -> bytes:
    try:
        blob = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError:
        blob = b""
    if not blob or _encode(blob) != encoded:
        raise _refusal("its second field is not canonical base64")
    return blob


def _encode(blob: bytes) -> str:
    return binascii.b2a_base64(blob, newline=False).decode("ascii")


def line(key: PublicKey) -> str:
    """The line other tools read, without the comment."""
    return f"{key.type} {_encode(key.blob)}"


def needs_touch(line: str) -> bool:
    """Whether this is a security key made for SSH: each of its signatures has the bit that tells of a touch (sshsig
    refuses others) and is bound to its application. OpenSSH makes no key whose application is not "ssh:" or below."""
    try:
        key = parse(line)
    except Invalid:
        return False
    return key.type.startswith("sk-") and fields(key)[-1].startswith(b"ssh:")


def fingerprint(key: PublicKey) -> str:
    """The fingerprint, exactly as `ssh-keygen -lf` prints it."""
    import hashlib  # costs 3 ms, which a command that shows no key need not pay

    return "SHA256:" + _encode(hashlib.sha256(key.blob).digest()).rstrip("=")
