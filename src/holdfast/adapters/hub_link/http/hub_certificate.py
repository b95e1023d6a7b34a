"""The certificate a hub makes with its own key, read without x509 libraries: 1 ms instead of 35 at every command.

Strict: the one form that hubs write (Ed25519, version 3, the five extensions). Anything else is a ValueError, and the
caller asks the library. Signatures are checked here, what they are worth is judged in trust/certificates.
"""

import socket
from collections.abc import Iterator
from hashlib import sha256

from holdfast.model import ssh_key
from holdfast.model.certificate import CertificateFacts
from holdfast.model.ssh_key import PublicKey

_SEQUENCE, _INTEGER, _BITS, _BYTES = 0x30, 0x02, 0x03, 0x04
_VERSION, _EXTENSIONS, _DNS, _IP = 0xA0, 0xA3, 0x82, 0x87
_UTC_TIME, _GENERAL_TIME = 0x17, 0x18
_ED25519 = bytes.fromhex("06032b6570")
_ALTERNATIVE = bytes.fromhex("551d11")
_KNOWN = {_ALTERNATIVE, *(bytes.fromhex(oid) for oid in ("551d0e", "551d0f", "551d13", "551d25", "551d23"))}
_CERTIFICATE_BYTES_MAX = 16 * 1024


def facts(der: bytes) -> CertificateFacts:
    if len(der) > _CERTIFICATE_BYTES_MAX:
        raise ValueError("it is too long")
    (whole,) = _parts(der, _SEQUENCE)
    signed, algorithm, signature = _parts(whole, _SEQUENCE, _SEQUENCE, _BITS)
    version, _, inner, issuer, period, subject, public, extensions = _parts(
        signed, _VERSION, _INTEGER, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE, _EXTENSIONS
    )
    kind, point = _parts(public, _SEQUENCE, _BITS)
    if version != b"\x02\x01\x02" or {algorithm, inner, kind} != {_ED25519}:
        raise ValueError("it is not an Ed25519 certificate of version 3")
    if len(point) != 33 or len(signature) != 65 or point[0] or signature[0]:
        raise ValueError("its key or its signature has another length")
    names, addresses = _alternative(extensions)
    first_s, last_s = (_moment(tag, value) for tag, value in _items(period))
    blob = ssh_key.pack(b"ssh-ed25519", point[1:])
    return CertificateFacts(
        digest=sha256(der).hexdigest(),
        names=names,
        addresses=addresses,
        not_before_s=first_s,
        not_after_s=last_s,
        key=ssh_key.line(PublicKey("ssh-ed25519", blob)),
        self_signed=issuer == subject and _holds(point[1:], signature[1:], whole[: _head(whole)[2]]),
    )


def _alternative(content: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names: list[str] = []
    addresses: list[str] = []
    (listed,) = _parts(content, _SEQUENCE)
    seen: set[bytes] = set()
    for tag, extension in _items(listed):
        (_, oid), *_, (last, value) = _items(extension)
        if tag != _SEQUENCE or last != _BYTES or oid not in _KNOWN or oid in seen:
            raise ValueError("it has an extension that hubs do not write")
        seen.add(oid)
        if oid == _ALTERNATIVE:
            (general,) = _parts(value, _SEQUENCE)
            for form, name in _items(general):
                if form == _DNS:
                    names.append(name.decode("ascii"))
                elif form == _IP and len(name) in (4, 16):
                    addresses.append(socket.inet_ntop(socket.AF_INET if len(name) == 4 else socket.AF_INET6, name))
                else:
                    raise ValueError("it names something that is neither a host nor an address")
    return tuple(names), tuple(addresses)


def _holds(point: bytes, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(point).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


# ---- DER


def _head(data: bytes, at: int = 0) -> tuple[int, int, int]:
    """Tag, and where the value begins and ends."""
    if at + 2 > len(data):
        raise ValueError("it is cut short")
    tag, size, start = data[at], data[at + 1], at + 2
    if size >= 0x80:
        count = size & 0x7F
        encoded = data[start : start + count]
        start += count
        size = int.from_bytes(encoded, "big")
        if count not in (1, 2) or len(encoded) != count or size < (0x80 if count == 1 else 0x100):
            raise ValueError("a length is not in its shortest form")
    if tag & 0x1F == 0x1F or start + size > len(data):
        raise ValueError("it is cut short")
    return tag, start, start + size


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        tag, start, at = _head(data, at)
        yield tag, data[start:at]


def _parts(data: bytes, *tags: int) -> list[bytes]:
    found = list(_items(data))
    if tuple(tag for tag, _ in found) != tags:
        raise ValueError("it is laid out in another way")
    return [value for _, value in found]


def _moment(tag: int, value: bytes) -> float:
    text = value.decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if text[:2] < "50" else "19") + text
    if tag not in (_UTC_TIME, _GENERAL_TIME) or len(text) != 15 or text[-1] != "Z" or not text[:-1].isdigit():
        raise ValueError("a time is not in the form of certificates")
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    hour, minute, second = int(text[8:10]), int(text[10:12]), int(text[12:14])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        raise ValueError("a time is none")
    shifted_year, shifted_month = (year, month - 3) if month > 2 else (year - 1, month + 9)  # a year begins in March
    days = 365 * shifted_year + shifted_year // 4 - shifted_year // 100 + shifted_year // 400
    days += (153 * shifted_month + 2) // 5 + day - 719_469
    return float(days * 86_400 + hour * 3600 + minute * 60 + second)
