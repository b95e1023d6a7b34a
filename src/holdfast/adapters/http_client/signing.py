"""Sign one HTTP request. Every call has a nonce of its own, so no request is sent twice."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.wire import http_signature

if TYPE_CHECKING:
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.random_source import RandomSource


class Signed(Struct, frozen=True):
    headers: dict[str, str]
    nonce: str  # a signed answer repeats it


class Signing:
    """`key` is the caller's; `to` in `sign` is the fingerprint of the recipient's key."""

    def __init__(self, key: IdentityKey, clock: Clock, random: RandomSource) -> None:
        self._key = key
        self._clock = clock
        self._random = random

    def sign(self, method: str, target: str, body: bytes | None, *, fleet: str, to: str) -> Signed:
        nonce = binascii.b2a_base64(self._random.token(http_signature.NONCE_BYTES), newline=False).decode()
        created_s = int(self._clock.now_s())
        return Signed(http_signature.sign(self._key, method, target, body, fleet, to, created_s, nonce), nonce)
