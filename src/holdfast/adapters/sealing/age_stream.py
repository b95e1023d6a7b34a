"""age v1 files for one X25519 key, chunk by chunk and on all cores.

pyrage makes the same files, but keeps the interpreter's lock meanwhile and reaches a quarter of this speed (ADR 0039).
Only for the contents of archives: secrets and key files are sealed by pyrage, for several recipients of any kind.
"""

import binascii
import hmac
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from holdfast.adapters.sealing import bech32
from holdfast.ports.sealing import CannotOpen

CHUNK_BYTES = 64 * 1024
TAG_BYTES = 16
_STEP = CHUNK_BYTES + TAG_BYTES
_GATHERED = 16  # chunks that are written at once
_INTRO = b"age-encryption.org/v1\n"
_LABEL = b"age-encryption.org/v1/X25519"
_FILE_KEY_BYTES, _NONCE_BYTES, _KEY_BYTES = 16, 16, 32
_HEADER_BYTES_MAX = 64 * 1024
_STANZA = re.compile(rb"->((?: [!-~]+)+)\n((?:[A-Za-z0-9+/]{64}\n)*)([A-Za-z0-9+/]{0,63})\n")
_MAC = re.compile(rb"--- ([A-Za-z0-9+/]{43})\n")
_NO_NONCE = bytes(12)

Buffer = bytes | bytearray | memoryview


class Seal:
    """Writes one age file through `write`, which gets views that are only valid during the call. Nothing is complete
    before `finish`."""

    def __init__(self, recipient: str, write: Callable[[Buffer], object]) -> None:
        """`recipient`: age1…; raises Invalid for anything else."""
        file_key, nonce = os.urandom(_FILE_KEY_BYTES), os.urandom(_NONCE_BYTES)
        self._cipher = ChaCha20Poly1305(_derived(file_key, nonce, b"payload"))
        self._write, self._number, self._rest = write, 0, bytearray()
        self._out, self._end = memoryview(bytearray(_GATHERED * _STEP)), 0
        write(_header(bech32.key_of(recipient, "age"), file_key) + nonce)

    def add(self, plain: Buffer) -> None:
        """The last chunk is held back: it is marked as the last one."""
        view = memoryview(plain)
        at = 0
        if self._rest:
            at = min(CHUNK_BYTES - len(self._rest), len(view))
            self._rest += view[:at]
            if at == len(view):
                return
            self._chunk(self._rest, last=False)
            self._rest.clear()
        while len(view) - at > CHUNK_BYTES:
            self._chunk(view[at : at + CHUNK_BYTES], last=False)
            at += CHUNK_BYTES
        self._rest += view[at:]

    def finish(self) -> None:
        self._chunk(self._rest, last=True)
        self._write(self._out[: self._end])

    def _chunk(self, plain: Buffer, last: bool) -> None:
        end = self._end + len(plain) + TAG_BYTES
        self._cipher.encrypt_into(_nonce(self._number, last), plain, None, self._out[self._end : end])
        self._number, self._end = self._number + 1, end
        if end == len(self._out):
            self._write(self._out)
            self._end = 0


def sealed(plain: Buffer, recipient: str) -> bytes:
    pieces: list[bytes] = []
    seal = Seal(recipient, lambda piece: pieces.append(bytes(piece)))
    seal.add(plain)
    seal.finish()
    return b"".join(pieces)


class Identity:
    """The secret half of one key. Its text is nowhere in messages or representations."""

    def __init__(self, secret: str) -> None:
        """`secret`: AGE-SECRET-KEY-1…; raises Invalid for anything else."""
        self._key = X25519PrivateKey.from_private_bytes(bech32.key_of(secret, "age-secret-key-"))
        self._public = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "Identity()"

    def opened(self, content: Buffer) -> Iterator[bytes]:
        """The plaintext in chunks. Raises CannotOpen as soon as one is damaged, and at the end if chunks are missing:
        the caller takes nothing for complete before the iterator is exhausted."""
        cipher, view = self._payload(content)
        for number, at in enumerate(range(0, len(view), _STEP)):
            chunk, last = view[at : at + _STEP], at + _STEP >= len(view)
            try:
                plain = cipher.decrypt(_nonce(number, last), chunk, None)
            except (InvalidTag, ValueError):
                raise CannotOpen from None
            if last and not plain and number:
                raise CannotOpen  # only an empty file ends in an empty chunk
            yield plain

    def open(self, content: Buffer) -> bytes:
        return b"".join(self.opened(content))

    def _payload(self, content: Buffer) -> tuple[ChaCha20Poly1305, memoryview]:
        view = memoryview(content)
        file_key, at = self._file_key(bytes(view[:_HEADER_BYTES_MAX]))
        begin = at + _NONCE_BYTES
        if len(view) - begin < TAG_BYTES:
            raise CannotOpen
        return ChaCha20Poly1305(_derived(file_key, bytes(view[at:begin]), b"payload")), view[begin:]

    def _file_key(self, head: bytes) -> tuple[bytes, int]:
        """And where the header ends."""
        if not head.startswith(_INTRO):
            raise CannotOpen
        at, found = len(_INTRO), None
        while stanza := _STANZA.match(head, at):
            at = stanza.end()
            kind, *arguments = stanza[1].split()
            if found is None and kind == b"X25519" and len(arguments) == 1:
                found = self._unwrapped(arguments[0], stanza[2].replace(b"\n", b"") + stanza[3])
        end = _MAC.match(head, at)
        if end is None or found is None:
            raise CannotOpen
        if not hmac.compare_digest(_text(_mac(found, head[: at + 3])), end[1]):
            raise CannotOpen
        return found, end.end()

    def _unwrapped(self, share: bytes, body: bytes) -> bytes | None:
        """None if this stanza is for another key."""
        try:
            theirs, wrapped = _bytes(share), _bytes(body)
            if len(wrapped) != _FILE_KEY_BYTES + TAG_BYTES:
                return None
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(theirs))
            key = _derived(shared, theirs + self._public, _LABEL)
            return ChaCha20Poly1305(key).decrypt(_NO_NONCE, wrapped, None)
        except (InvalidTag, ValueError):
            return None


def _header(recipient: bytes, file_key: bytes) -> bytes:
    once = X25519PrivateKey.generate()
    share = once.public_key().public_bytes_raw()
    shared = once.exchange(X25519PublicKey.from_public_bytes(recipient))
    wrapped = ChaCha20Poly1305(_derived(shared, share + recipient, _LABEL)).encrypt(_NO_NONCE, file_key, None)
    head = b"%s-> X25519 %s\n%s\n---" % (_INTRO, _text(share), _text(wrapped))
    return head + b" " + _text(_mac(file_key, head)) + b"\n"


def _derived(key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), _KEY_BYTES, salt or None, info).derive(key)


def _mac(file_key: bytes, head: bytes) -> bytes:
    return hmac.digest(_derived(file_key, b"", b"header"), head, sha256)


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\1" if last else b"\0")


def _text(content: bytes) -> bytes:
    return binascii.b2a_base64(content, newline=False).rstrip(b"=")


def _bytes(text: bytes) -> bytes:
    """Only the one spelling that `_text` makes."""
    content = binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True)
    if _text(content) != text:
        raise ValueError
    return content
