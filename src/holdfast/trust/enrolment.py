"""Verify enrolments: the chain from operators over a one-time key to a node's key; and revocations. Pure."""

from msgspec import Struct

from holdfast.errors import Corrupt, NotPermitted
from holdfast.model import canonical, ssh_key
from holdfast.model.ids import is_name
from holdfast.model.invite import (
    INVITE_NAMESPACE,
    INVITE_S_MAX,
    JOIN_NAMESPACE,
    REVOKE_NAMESPACE,
    Enrolment,
    Invite,
    Joining,
    Revocation,
    SignedInvite,
    SignedRevocation,
    decode_invite,
    decode_joining,
    decode_revocation,
)
from holdfast.model.trust import Trust
from holdfast.trust import endorsement, sshsig

SKEW_S = 60.0
RECORD_S = 7 * 86_400  # so long after an invite expired, an apply may still record the node that joined with it
STATEMENT_BYTES_MAX = 8 * 1024
_INVITE_AGAIN = "holdfast node invite {node}"


def verify_invite(signed: SignedInvite, fleet: str, trust: Trust, now_s: float | None = None) -> Invite:
    """Without `now_s` only check whether it was ever valid: for an enrolment long done."""
    _bound(signed.invite, "the invite")
    invite = decode_invite(signed.invite)
    _check_fleet(invite.fleet, fleet, "invite")
    _check_name(invite.node, "the invite")
    _check_key(invite.once, "the one-time key of the invite")
    if invite.over:
        _check_key(invite.over, "the key that the invite replaces")
    again = _INVITE_AGAIN.format(node=invite.node)
    if not 0 < invite.expires_s - invite.issued_s <= INVITE_S_MAX:
        raise NotPermitted(
            f"an invite must be valid for 1 second to {INVITE_S_MAX // 86_400} days",
            remedy=again,
            code="expiry_too_long",
        )
    endorsement.signers(
        signed.invite,
        signed.signatures,
        INVITE_NAMESPACE,
        "destroy",
        (f"node.{invite.node}",),
        trust,
        f"the invite of {invite.node}",
        f"`{again} --key KEY`, with the key of an operator of grade destroy",
    )
    if now_s is not None:
        check_moment(invite, now_s)
    return invite


def verify(enrolment: Enrolment, fleet: str, trust: Trust, now_s: float | None = None) -> Joining:
    """Verify the whole chain: operators signed the invite, the one-time key and the node's key signed the joining."""
    invite = verify_invite(enrolment.invite, fleet, trust, now_s)
    _bound(enrolment.joining, "the enrolment")
    joining = decode_joining(enrolment.joining)
    _check_fleet(joining.fleet, fleet, "enrolment")
    if joining.invite != canonical.digest(enrolment.invite.invite):
        raise _broken(invite.node, "it belongs to another invite than the one sent with it")
    if joining.node != invite.node:
        raise _broken(invite.node, f"it is for {joining.node[:60]!r}, the invite for {invite.node}")
    _check_key(joining.key, "the node's key")
    if joining.key == invite.once:
        raise _broken(invite.node, "the one-time key cannot be the node's own key")
    # The node reports this time. A false time gains nothing, but a chain that contradicts itself is no proof.
    check_moment(invite, joining.joined_s)
    sshsig.verify(enrolment.joining, enrolment.signature, JOIN_NAMESPACE, ssh_key.parse(invite.once))
    sshsig.verify(enrolment.joining, enrolment.possession, JOIN_NAMESPACE, ssh_key.parse(joining.key))
    return joining


class Proven(Struct, frozen=True):
    """The result of `verify` with its invite, for callers that also need roles or `replaces`."""

    joining: Joining
    invite: Invite


def prove(enrolment: Enrolment, fleet: str, trust: Trust, now_s: float | None = None) -> Proven:
    joining = verify(enrolment, fleet, trust, now_s)
    return Proven(joining, decode_invite(enrolment.invite.invite))


def check_succeeds(found: Proven, recorded: str, revoked_s: float | None, now_s: float) -> None:
    """Whether this chain may make its key the node's key, for a verifier that did not see the joining. The holder of
    the one-time key can sign another joining at any time, with any date. Only the invite limits that: it names the key
    it replaces, must be younger than a revocation, and expires as a proof. `recorded` is the revision's key, or ""."""
    invite = found.invite
    again = f"`{_INVITE_AGAIN.format(node=invite.node)} --replace`, then join with the new token"
    if recorded and not replaces(invite, recorded):
        raise NotPermitted(
            f"the invite of {invite.node} was not made to replace the recorded key",
            remedy=again,
            code="invite_outdated",
        )
    if revoked_s is not None and invite.issued_s <= revoked_s:
        raise revoked_since(invite)
    if now_s >= invite.expires_s + RECORD_S:
        raise NotPermitted(
            f"the invite of {invite.node} expired {int(now_s - invite.expires_s) // 86_400} days ago, and no apply "
            f"recorded the node that joined with it, so it proves nothing any more",
            remedy=again,
            code="invite_outdated",
        )


def replaces(invite: Invite, key: str) -> bool:
    return invite.replaces and invite.over == key


def revoked_since(invite: Invite) -> NotPermitted:
    return NotPermitted(
        f"a key of {invite.node} was revoked after this invite was made; that ended the invite too",
        remedy=f"`{_INVITE_AGAIN.format(node=invite.node)}`, then join with the new token",
        code="invite_outdated",
    )


def verify_revocation(signed: SignedRevocation, fleet: str, trust: Trust) -> Revocation:
    """Never expires: it is safe to repeat. It names the key, so a node that joins again is not affected."""
    _bound(signed.revocation, "the revocation")
    revocation = decode_revocation(signed.revocation)
    _check_fleet(revocation.fleet, fleet, "revocation")
    _check_name(revocation.node, "the revocation")
    _check_key(revocation.key, "the key to revoke")
    endorsement.signers(
        signed.revocation,
        signed.signatures,
        REVOKE_NAMESPACE,
        "destroy",
        (f"node.{revocation.node}",),
        trust,
        f"the revocation of {revocation.node}",
        f"`holdfast node revoke {revocation.node} --key KEY`, with the key of an operator of grade destroy",
    )
    return revocation


def check_moment(invite: Invite, at_s: float) -> None:
    again = _INVITE_AGAIN.format(node=invite.node)
    if at_s >= invite.expires_s:
        raise NotPermitted(
            f"the invite of {invite.node} expired {int(at_s - invite.expires_s)} s ago", remedy=again, code="expired"
        )
    if at_s < invite.issued_s - SKEW_S:
        raise NotPermitted(
            f"the invite of {invite.node} is not valid yet: {int(invite.issued_s - at_s)} s too early by this clock",
            remedy="set the clock of this machine (`timedatectl set-ntp true`), then try again",
            code="not_yet_valid",
        )


def _check_fleet(theirs: str, ours: str, what: str) -> None:
    if theirs != ours:
        raise NotPermitted(
            f"this {what} belongs to another fleet ({theirs[:12]}…, this is {ours[:12]}…)",
            remedy="use it with the hub of its own fleet: check --hub and --fleet",
            code="other_fleet",
        )


def _check_name(name: str, what: str) -> None:
    if not is_name(name):
        raise Corrupt(f"{what} names {name[:60]!r}, which is not a node name", remedy="holdfast node list")


def _check_key(line: str, what: str) -> None:
    """One key has one text, because keys are compared as text everywhere else."""
    key = ssh_key.parse(line)
    if key.type != "ssh-ed25519" or ssh_key.line(key) != line:
        raise Corrupt(
            f"{what} is not a plain ssh-ed25519 line", remedy="`holdfast node invite NAME` makes one", code="key_form"
        )


def _bound(content: bytes, what: str) -> None:
    if len(content) > STATEMENT_BYTES_MAX:
        raise Corrupt(f"{what} is longer than {STATEMENT_BYTES_MAX} bytes", remedy="holdfast node invite NAME")


def _broken(node: str, why: str) -> Corrupt:
    return Corrupt(
        f"the enrolment of {node} is not consistent: {why}",
        remedy=f"`{_INVITE_AGAIN.format(node=node)}`, then join with the new token",
        code="enrolment_broken",
    )
