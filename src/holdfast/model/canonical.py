"""Canonical JSON (RFC 8785) for values that are hashed or signed. Pure.

The domain is deliberately small: objects with ASCII keys, arrays, strings, booleans, null and integers within
±(2^53 − 1). Floats are not in it. Inside that domain msgspec's sorted encoder writes the same bytes as RFC 8785
(a property test compares the two), at a fortieth of the cost.
"""

from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from holdfast.errors import Corrupt
from holdfast.model.ids import Digest

T = TypeVar("T")

INT_MAX = 2**53 - 1

_encoder = msgspec.json.Encoder(order="sorted")


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def digest(content: bytes) -> Digest:
    return Digest(sha256(content).hexdigest())


def decode(content: bytes, kind: type[T], what: str) -> T:
    """Decode what `encode` wrote; any other bytes are corruption, also another spelling of the same value."""
    try:
        value = msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Corrupt(
            f"{what} cannot be read: {trouble}", remedy="`holdfast hub check` lists the damage", code="unreadable"
        ) from trouble
    if _encoder.encode(value) != content:
        raise Corrupt(
            f"{what} is not in canonical form",
            remedy="create it again with holdfast; do not edit signed or stored JSON",
            code="not_canonical",
        )
    return value
