"""Enrolment: a signed one-time invite, its token, and the proof a node keeps. Values and their encoding."""

import binascii

import msgspec
from msgspec import Struct

from holdfast.errors import Invalid
from holdfast.model import canonical
from holdfast.model.fleet import Role
from holdfast.model.revision import Count, Head

INVITE_NAMESPACE = "holdfast-invite"  # signed by operators, grade destroy
JOIN_NAMESPACE = "holdfast-join"  # signed by the invite's one-time key
REVOKE_NAMESPACE = "holdfast-revocation"  # signed by operators, grade destroy
INVITE_S_MAX = 7 * 24 * 3600
TOKEN_PREFIX = "hfj_"  # noqa: S105  how a token begins, not a secret
TOKEN_CHARS_MAX = 64 * 1024
TOKEN_SEAL_BYTES = 4  # against typing errors; signatures protect against forgery


class Invite(Struct, frozen=True, forbid_unknown_fields=True):
    """What operators sign. `once` is the public line of a key made for this invite only."""

    fleet: str
    id: str
    node: str
    roles: tuple[Role, ...]
    once: str
    issued_s: Count
    expires_s: Count
    replaces: bool = False  # may replace a key the node already has (W4): the key `over` and no other
    over: str = ""  # public line of that key, so that an old invite cannot replace a newer key


class SignedInvite(Struct, frozen=True):
    invite: bytes  # canonical Invite
    signatures: tuple[str, ...]


class JoinToken(Struct, frozen=True):
    """What the new machine gets. Secret until used: its holder can become this node."""

    invite: SignedInvite
    once: bytes  # 32 bytes, private half of the one-time key
    hub: str  # URL
    hub_key: str  # public line, pinned
    head: Head  # a revision the operator accepted; the node starts its chain there


class Joining(Struct, frozen=True, forbid_unknown_fields=True):
    """What the one-time key signs: this key is that node."""

    fleet: str
    invite: str  # digest of the invite's bytes
    node: str
    key: str  # public line of the node's own key
    joined_s: Count


class Enrolment(Struct, frozen=True):
    """The whole chain from an operator to a node's key; any holder of the trust can verify it (trust/enrolment.py)."""

    invite: SignedInvite
    joining: bytes  # canonical Joining
    signature: str  # armoured SSHSIG by the one-time key, JOIN_NAMESPACE
    possession: str  # armoured SSHSIG by the node's key over the same bytes, JOIN_NAMESPACE


class Revocation(Struct, frozen=True, forbid_unknown_fields=True):
    """What operators sign to revoke a node's key at once."""

    fleet: str
    node: str
    key: str
    revoked_s: Count


class SignedRevocation(Struct, frozen=True):
    revocation: bytes  # canonical Revocation
    signatures: tuple[str, ...]


def decode_invite(content: bytes) -> Invite:
    return canonical.decode(content, Invite, "the invite")


def decode_joining(content: bytes) -> Joining:
    return canonical.decode(content, Joining, "the enrolment")


def decode_revocation(content: bytes) -> Revocation:
    return canonical.decode(content, Revocation, "the revocation")


def encode_token(token: JoinToken) -> str:
    """One text without spaces or quotes, so that it survives a shell, a unit file and a chat window."""
    content = canonical.encode(token)
    text = binascii.b2a_base64(content + _seal(content), newline=False).decode("ascii")
    return TOKEN_PREFIX + text.translate(_URL_SAFE).rstrip("=")


def decode_token(text: str) -> JoinToken:
    """Surrounding white space is accepted; a truncated or altered token is reported as such. Proves nothing yet."""
    word = text.strip()
    if not word.startswith(TOKEN_PREFIX):
        raise _no_token(f"it does not begin with {TOKEN_PREFIX}")
    if len(word) > TOKEN_CHARS_MAX:
        raise _no_token(f"it is longer than {TOKEN_CHARS_MAX} characters")
    body = word.removeprefix(TOKEN_PREFIX)
    if not body.isascii() or any(character in "+/= \t\r\n" for character in body):
        raise _no_token("it has characters that a token cannot have")
    try:
        sealed = binascii.a2b_base64(body.translate(_URL_BACK) + "=" * (-len(body) % 4), strict_mode=True)
        content = sealed[:-TOKEN_SEAL_BYTES]
        if sealed != content + _seal(content):
            raise ValueError("the checksum does not match")
        token = msgspec.json.decode(content, type=JoinToken)
    except (ValueError, RecursionError):  # also what msgspec and binascii raise
        raise _no_token("it is damaged or incomplete") from None
    if len(token.once) != 32:
        raise _no_token("the one-time key in it is damaged")
    return token


def _seal(content: bytes) -> bytes:
    return bytes.fromhex(canonical.digest(content))[:TOKEN_SEAL_BYTES]


_URL_SAFE = str.maketrans("+/", "-_")
_URL_BACK = str.maketrans("-_", "+/")


def _no_token(why: str) -> Invalid:
    return Invalid(
        f"this is not a join token: {why}",
        remedy="copy the whole token that `holdfast node invite NAME` printed, or invite the node again",
        code="token_unreadable",
    )
