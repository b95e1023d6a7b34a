"""Enrolment: an operator's signed one-time invite, the token that carries it, and the proof a node keeps of it."""

from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.fleet import Role
from holdfast.model.revision import Count, Head

INVITE_NAMESPACE = "holdfast-invite"  # signed by operators, grade destroy
JOIN_NAMESPACE = "holdfast-join"  # signed by the invite's one-time key
REVOKE_NAMESPACE = "holdfast-revocation"  # signed by operators, grade destroy


class Invite(Struct, frozen=True, forbid_unknown_fields=True):
    """What operators sign. `once` is the public line of a key made for this invite alone."""

    fleet: str
    id: str
    node: str
    roles: tuple[Role, ...]
    once: str
    issued_s: Count
    expires_s: Count
    replaces: bool = False  # may take the place of a key the node already has (W4)


class SignedInvite(Struct, frozen=True):
    invite: bytes  # canonical Invite
    signatures: tuple[str, ...]


class JoinToken(Struct, frozen=True):
    """What the new machine is given. Secret until used: whoever has it may become this node."""

    invite: SignedInvite
    once: bytes  # 32 bytes, private half of the one-time key
    hub: str  # URL
    hub_key: str  # public line, pinned
    head: Head  # a revision the operator believes; the node starts its chain there


class Joining(Struct, frozen=True, forbid_unknown_fields=True):
    """What the one-time key signs: this key is that node."""

    fleet: str
    invite: str  # digest of the invite's bytes
    node: str
    key: str  # public line of the node's own key
    joined_s: Count


class Enrolment(Struct, frozen=True):
    """The whole chain from an operator to a node's key; anybody with the trust can check it (trust/enrolment.py)."""

    invite: SignedInvite
    joining: bytes  # canonical Joining
    signature: str  # armoured SSHSIG by the one-time key, JOIN_NAMESPACE
    possession: str  # armoured SSHSIG by the node's key over the same bytes, JOIN_NAMESPACE


class Revocation(Struct, frozen=True, forbid_unknown_fields=True):
    """What operators sign to shut one node out at once."""

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
