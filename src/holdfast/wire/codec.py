"""Encode messages to JSON and decode them, with an error that says what is wrong. Pure."""

from typing import Any, TypeVar

import msgspec

from holdfast.errors import Invalid

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def write(message: Any) -> bytes:
    return _encoder.encode(message)


def read(content: bytes | bytearray, kind: type[T]) -> T:
    """Unknown fields are ignored; anything else that does not fit raises `Invalid`."""
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise _refused("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise _refused("it is not UTF-8") from None
    except msgspec.DecodeError as trouble:
        raise _refused(str(trouble)) from trouble


def _refused(why: str) -> Invalid:
    return Invalid(f"this message cannot be read: {why}", remedy="send JSON as described by /openapi.json")
