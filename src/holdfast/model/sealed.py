"""The outside of a sealed value (an age v1 file): its recipients and its length. Opens nothing.

Only the binary form has exactly one spelling: without a key it cannot be written differently, so its digest names it.
The armoured form, which suits version control better, is removed where a fleet directory is read.
"""

import binascii
import re
from hashlib import sha256

from msgspec import Struct

from holdfast.model import ssh_key

FILE_BYTES_MAX = 64 * 1024
_INTRO = b"age-encryption.org/v1\n"
_ARMOUR_BEGIN, _ARMOUR_END = b"-----BEGIN AGE ENCRYPTED FILE-----", b"-----END AGE ENCRYPTED FILE-----"
_ARMOUR_CHARS = 64
# Patterns, compiled where they are used: most plans have no secret (ADR 0003).
_STANZA = rb"->((?: [!-~]+)+)\n((?:[A-Za-z0-9+/]{64}\n)*)([A-Za-z0-9+/]{0,63})\n"
_MAC = rb"--- [A-Za-z0-9+/]{43}\n"
_TAG = rb"[A-Za-z0-9+/]{6}\Z"
_NONCE_BYTES, _CHUNK_BYTES, _SEAL_BYTES = 16, 64 * 1024, 16


class NotSealed(ValueError):
    """The text says what is wrong with the bytes."""


class Sealed(Struct, frozen=True):
    """`tags` name SSH keys; other recipients (operators' age keys) are anonymous by design and can only be counted."""

    tags: frozenset[str]
    anonymous: int
    size_bytes: int  # of what is inside


def read(content: bytes) -> Sealed:
    """Raises NotSealed for anything that is not one whole age file."""
    if len(content) > FILE_BYTES_MAX:
        raise NotSealed(f"is {len(content):,} bytes long; the limit is {FILE_BYTES_MAX:,} bytes")
    if not content.startswith(_INTRO):
        raise NotSealed("is not an age file")
    at = len(_INTRO)
    tags: set[str] = set()
    anonymous = 0
    stanza = re.compile(_STANZA)
    while found := stanza.match(content, at):
        at = found.end()
        kind, *arguments = found[1].split()
        if kind == b"ssh-ed25519":
            tags.add(_tag(arguments))
        elif not kind.endswith(b"-grease"):  # age adds these so that readers get used to unknown kinds
            anonymous += 1
    end = re.compile(_MAC).match(content, at)
    if end is None:
        raise NotSealed("has a damaged header")
    if not tags and not anonymous:
        raise NotSealed("has no recipient")
    return Sealed(frozenset(tags), anonymous, _inside(len(content) - end.end()))


def _tag(arguments: list[bytes]) -> str:
    if len(arguments) != 2 or not re.match(_TAG, arguments[0]):
        raise NotSealed("has a damaged header")
    return arguments[0].decode()


def _inside(payload_bytes: int) -> int:
    sealed = payload_bytes - _NONCE_BYTES
    chunks = max(1, -(-sealed // (_CHUNK_BYTES + _SEAL_BYTES)))
    size = sealed - chunks * _SEAL_BYTES
    if size < 0:
        raise NotSealed("is incomplete")
    return size


def tag_of(line: str) -> str:
    """The tag of this SSH key in a sealed value: the beginning of the digest of its wire form."""
    digest = sha256(ssh_key.parse(line).blob).digest()
    return binascii.b2a_base64(digest[:4], newline=False).decode().rstrip("=")


# ---- armour ---------------------------------------------------------------------------------------------------------


def bare(content: bytes) -> bytes:
    """The same without its armour, if it has one."""
    if not content.lstrip().startswith(_ARMOUR_BEGIN):
        return content
    lines = content.strip().replace(b"\r\n", b"\n").split(b"\n")
    try:
        if lines[-1] != _ARMOUR_END:
            raise ValueError
        return binascii.a2b_base64(b"".join(lines[1:-1]), strict_mode=True)
    except ValueError:
        raise NotSealed("has damaged armour") from None


def armoured(content: bytes) -> bytes:
    text = binascii.b2a_base64(content, newline=False)
    lines = [text[at : at + _ARMOUR_CHARS] for at in range(0, len(text), _ARMOUR_CHARS)]
    return b"\n".join((_ARMOUR_BEGIN, *lines, _ARMOUR_END, b""))
