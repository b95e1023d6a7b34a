"""Which node of which fleet this agent is, and its proof of that: made once by `agent join`, read at every start."""

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt, Invalid
from holdfast.model import canonical
from holdfast.model.invite import (
    JOIN_NAMESPACE,
    Enrolment,
    Joining,
    JoinToken,
    decode_invite,
)
from holdfast.model.revision import NO_HEAD, Head
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import own_signature

FILE_BYTES_MAX = 256 * 1024


class Membership(Struct, frozen=True, omit_defaults=True):
    """`head` is where its own chain starts: the revision that the inviting operator believed, later one that this node
    has in force as a whole. `accepted` is the newest that it accepted."""

    fleet: str
    node: str
    roles: tuple[str, ...]
    hub: str
    hub_key: str
    head: Head
    enrolment: Enrolment
    address: str = ""
    joined: bool = False  # a hub has confirmed it at least once
    accepted: Head = NO_HEAD
    restores: bool = False  # it took the place of another machine, to restore the services of that one


def enrol(
    token: JoinToken, once: IdentityKey, key: IdentityKey, now_s: float, address: str, restores: bool = False
) -> Membership:
    """Two signatures over one statement: the one-time key says who may, the node's key says that it is here."""
    invite = decode_invite(token.invite.invite)
    if once.line != invite.once:
        raise Invalid(
            "the one-time key in this token is not the one the operator signed",
            remedy=f"ask for a new token: holdfast node invite {invite.node}",
            code="token_unreadable",
        )
    joining = canonical.encode(
        Joining(invite.fleet, canonical.digest(token.invite.invite), invite.node, key.line, int(now_s))
    )
    enrolment = Enrolment(
        token.invite,
        joining,
        own_signature.armoured(once, joining, JOIN_NAMESPACE),
        own_signature.armoured(key, joining, JOIN_NAMESPACE),
    )
    return Membership(
        invite.fleet,
        invite.node,
        invite.roles,
        token.hub,
        token.hub_key,
        token.head,
        enrolment,
        address,
        restores=restores,
    )


def same_invite(one: Enrolment, token: JoinToken) -> bool:
    return one.invite.invite == token.invite.invite


def encode(membership: Membership) -> bytes:
    return msgspec.json.format(msgspec.json.encode(membership), indent=2) + b"\n"


def decode(content: bytes, path: str) -> Membership:
    try:
        return msgspec.json.decode(content, type=Membership)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Corrupt(
            f"{path}, which says which node this is, cannot be read: {trouble}",
            remedy="restore it from a backup of this machine, or join again: holdfast agent join TOKEN",
            code="agent_state_damaged",
        ) from trouble
