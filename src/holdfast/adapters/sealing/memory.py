"""Sealing for tests and simulation: the format of age outside, a keyless cipher inside. Not secret."""

import binascii
from collections.abc import Sequence
from hashlib import sha256
from typing import IO

from holdfast.errors import Invalid
from holdfast.model import sealed as outside
from holdfast.ports.random_source import RandomSource
from holdfast.ports.sealing import CannotOpen

_MAC_BYTES, _NONCE_BYTES, _SEAL_BYTES = 32, 16, 16


class MemorySealer:
    def __init__(self, random: RandomSource) -> None:
        self._random = random

    def seal(self, value: bytes, recipients: Sequence[str]) -> bytes:
        if not recipients:
            raise Invalid("a value needs a recipient to be sealed to", remedy="give at least one recipient")
        header = b"age-encryption.org/v1\n" + b"".join(map(_stanza, recipients))
        nonce = self._random.token(_NONCE_BYTES)
        hidden = _mixed(value, nonce)
        mac = _text(sha256(header + nonce + hidden).digest())
        return header + b"--- " + mac + b"\n" + nonce + hidden + sha256(nonce + hidden).digest()[:_SEAL_BYTES]

    def seal_stream(self, source: IO[bytes], into: IO[bytes], recipients: Sequence[str]) -> None:
        into.write(self.seal(source.read(), recipients))


class MemoryOpener:
    def __init__(self, recipient: str) -> None:
        """`recipient`: the line that values must be sealed to."""
        self._stanza = _stanza(recipient)

    def open(self, sealed: bytes) -> bytes:
        try:
            outside.read(sealed)
        except outside.NotSealed:
            raise CannotOpen from None
        end = sealed.index(b"\n--- ") + 1
        header, rest = sealed[:end], sealed[end + 4 :]
        mac, payload = rest[: _MAC_BYTES * 4 // 3 + 1], rest[_MAC_BYTES * 4 // 3 + 2 :]
        nonce, hidden = payload[:_NONCE_BYTES], payload[_NONCE_BYTES:-_SEAL_BYTES]
        whole = sha256(nonce + hidden).digest()[:_SEAL_BYTES] == payload[-_SEAL_BYTES:]
        if self._stanza not in header or mac != _text(sha256(header + nonce + hidden).digest()) or not whole:
            raise CannotOpen
        return _mixed(hidden, nonce)

    def open_stream(self, sealed: IO[bytes], into: IO[bytes]) -> None:
        into.write(self.open(sealed.read()))


def _stanza(line: str) -> bytes:
    name = _text(sha256(line.encode()).digest())
    if line.startswith("ssh-"):
        return b"-> ssh-ed25519 " + outside.tag_of(line).encode() + b" " + name + b"\n" + name + b"\n"
    if not line.startswith("age1"):
        raise Invalid(f"{line[:80]!r} is not a recipient", remedy="give age1… or an ssh-ed25519 line")
    return b"-> X25519 " + name + b"\n" + name + b"\n"


def _text(content: bytes) -> bytes:
    return binascii.b2a_base64(content, newline=False).rstrip(b"=")


def _mixed(content: bytes, nonce: bytes) -> bytes:
    blocks = range(-(-len(content) // 32))
    stream = b"".join(sha256(nonce + block.to_bytes(8, "big")).digest() for block in blocks)
    return bytes(one ^ other for one, other in zip(content, stream, strict=False))
