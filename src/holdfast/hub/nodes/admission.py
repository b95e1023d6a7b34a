"""Decide whether a key may join as a node: every reason to refuse, before anything is written (M-21, M-22)."""

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict, HoldfastError, Limited, NotPermitted
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import EnrolmentRecord, Registry, check_roles
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.checkin import JoinRequest
from holdfast.model.invite import Enrolment, Invite
from holdfast.model.principal import Principal
from holdfast.ports.ledger_store import Moved, Reading, Transaction
from holdfast.trust import enrolment as chain


class Spent(Struct, frozen=True):
    """An invite that was used, and by which key."""

    node: str
    key: str
    at_s: float


class Admission(Struct, frozen=True):
    """A join that may be: `record` is what is to be written, None when the key is in force already."""

    member: Member
    key: str
    record: EnrolmentRecord | None = None
    invite: str = ""  # digest
    enrolled: int = 0  # version of the node's enrolment that this was judged by; 0: there was none


def admit(registry: Registry, store: Reading, principal: Principal, request: JoinRequest, now_s: float) -> Admission:
    applied = registry.applied
    if applied is None:
        raise Conflict(
            "this hub has no revision yet, so it has no nodes",
            remedy="`holdfast apply` with the node under [[nodes]] in fleet.toml; then join again",
            code="nothing_applied",
        )
    if principal.kind == "node":  # in force already, and says where it is now: that needs no invite (M-23)
        member = registry.member_called(request.name, principal.name)
        check_roles(member, request.roles)
        return Admission(member, principal.key)
    proven = chain.prove(request.enrolment, applied.fleet_id, applied.trust)
    key, invite = proven.joining.key, proven.invite
    if principal.key != key:
        raise NotPermitted(
            "the request is signed by another key than the one it wants to enrol",
            remedy="`holdfast agent join TOKEN` signs with the node's own key",
            code="key_mismatch",
        )
    member = registry.member_called(request.name, proven.joining.node)
    check_roles(member, request.roles)
    check_roles(member, invite.roles)
    if registry.is_revoked(key):
        raise NotPermitted(
            f"this key of {member.name} was revoked",
            remedy=f"remove node.key from the agent's state directory; holdfast node invite {member.name} --replace",
            code="revoked",
        )
    spent = canonical.digest(request.enrolment.invite.invite)
    if _was_spent(store, spent, member, key):
        return Admission(member, key)
    chain.verify_invite(request.enrolment.invite, applied.fleet_id, applied.trust, now_s)
    over = registry.key_in_revision(member.name)
    _check_room(registry, member, invite, over)
    before = store.get(keys.enrolment(member.name))
    record = EnrolmentRecord(request.enrolment, key, now_s, over, request.address)
    return Admission(member, key, record, spent, before.modified if before is not None else 0)


def successor(registry: Registry, store: Reading, principal: Principal, request: JoinRequest) -> Enrolment | None:
    """The proof that another machine took the place of this one, for the machine itself: it stops its services then. A
    machine that was this node proves it with its spent invite; no other caller learns anything."""
    member, applied = registry.members.get(request.name), registry.applied
    if applied is None or member is None or member.record is None or principal.kind == "node":
        return None
    now, key = member.record, principal.key
    if now.key in (key, "") or now.key != member.key:
        return None
    try:
        joining = chain.verify(request.enrolment, applied.fleet_id, applied.trust)
    except HoldfastError:
        return None
    spent = store.get(keys.invite(canonical.digest(request.enrolment.invite.invite)))
    is_former = spent is not None and msgspec.json.decode(spent.value, type=Spent).key == key
    return now.enrolment if is_former and (joining.key, joining.node) == (key, member.name) else None


def writing(admission: Admission) -> Transaction:
    """Consume the invite and enrol in one transaction: a token works once, whatever crashes. It fails if another key
    enrolled since the check: two invites of one name, used at the same time, make one node."""
    record = admission.record
    assert record is not None, "nothing is to be written for a key that is in force"
    name = admission.member.name
    spent = Spent(name, admission.key, record.accepted_s)
    return Transaction(
        expect={keys.invite(admission.invite): 0, keys.enrolment(name): admission.enrolled},
        put={
            keys.invite(admission.invite): msgspec.json.encode(spent),
            keys.enrolment(name): msgspec.json.encode(record),
        },
    )


def overtaken(admission: Admission, moved: Moved) -> HoldfastError:
    """Why nothing was written: another request was faster, with this token or with another one."""
    name = admission.member.name
    return used(name) if moved.key == keys.invite(admission.invite) else _taken(name)


def _was_spent(store: Reading, invite: str, member: Member, key: str) -> bool:
    """True: by this key, whose answer may have been lost. Raises if another key used it."""
    record = store.get(keys.invite(invite))
    if record is None:
        return False
    if msgspec.json.decode(record.value, type=Spent).key == key == member.key:
        return True
    raise used(member.name)


def used(node: str) -> NotPermitted:
    return NotPermitted(
        f"this invite of {node} was used already",
        remedy=f"`holdfast node invite {node} --replace`, if this machine replaces it",
        code="invite_used",
    )


def _taken(node: str) -> Conflict:
    return Conflict(
        f"{node} has joined already with another key",
        remedy=f"`holdfast node invite {node} --replace` lets a new machine replace it",
        code="already_joined",
    )


def _check_room(registry: Registry, member: Member, invite: Invite, in_revision: str) -> None:
    if member.key and not invite.replaces:
        raise _taken(member.name)
    # The one in force, or the one operators recorded before it: an invite of long ago replaces neither.
    if member.key and not any(key and chain.replaces(invite, key) for key in (member.key, in_revision)):
        raise Conflict(
            f"this invite was not made to replace the key that {member.name} has now",
            remedy=f"`holdfast node invite {member.name} --replace` makes one that does",
            code="invite_outdated",
        )
    revoked_s = registry.revoked_s(member.name)
    if revoked_s is not None and invite.issued_s <= revoked_s:
        raise chain.revoked_since(invite)
    if not member.key and registry.joined >= registry.nodes_max:
        raise Limited(
            f"this fleet takes at most {registry.nodes_max} nodes, and has them",
            remedy="raise [fleet] nodes_max in fleet.toml and apply, or revoke a node that no longer exists",
            retry_after_s=60.0,
        )
