"""Verify that a session stands for an operator of this fleet. Pure; a session signs requests and nothing else.

Two halves, because the first is expensive and its result never changes: `prove` (cache it by certificate and key),
and `admit`, called for every request, so that an operator who leaves the trust is refused from the next request on.
"""

from holdfast.errors import Corrupt, Invalid, Unauthenticated
from holdfast.model import ssh_key
from holdfast.model.principal import Principal
from holdfast.model.session import (
    NAMESPACE,
    SESSION_S_MAX,
    SessionCertificate,
    SessionGrant,
    decode_grant,
)
from holdfast.model.trust import Trust
from holdfast.trust import sshsig
from holdfast.trust.approval import by_key

EARLY_S = 60  # as far as clocks may differ
GRANT_BYTES_MAX = 8192


def verify_session(
    certificate: SessionCertificate, line: str, fleet: str, trust: Trust | None, now_s: float
) -> Principal:
    """`line` is the key that signed the request; `fleet` is "" and `trust` None before the first revision."""
    return admit(prove(certificate, line), fleet, trust, now_s)


def prove(certificate: SessionCertificate, line: str) -> SessionGrant:
    """Check that the operator it names signed this grant for this session key."""
    if len(certificate.grant) > GRANT_BYTES_MAX:
        raise _refused("it is too long")
    try:
        grant = decode_grant(certificate.grant)
        operator, session = ssh_key.parse(grant.operator), ssh_key.parse(grant.session)
        sshsig.verify(certificate.grant, certificate.signature, NAMESPACE, operator)
    except (Corrupt, Invalid) as trouble:
        raise _refused(trouble.message) from None
    if ssh_key.line(session) != line:
        raise _refused("it is for another session key than the one that signed the request")
    if session.type != "ssh-ed25519" or session.blob == operator.blob:
        raise _refused("the session key is not an Ed25519 key of its own")
    if not 0 < grant.expires_s - grant.not_before_s <= SESSION_S_MAX:
        raise _refused(f"a session may last at most {SESSION_S_MAX // 3600} hours")
    return grant


def admit(grant: SessionGrant, fleet: str, trust: Trust | None, now_s: float) -> Principal:
    """The operator of a proven grant, at this time and under this trust."""
    if grant.fleet != fleet:
        raise _refused("it is for another fleet", "other_fleet")
    if now_s < grant.not_before_s - EARLY_S:
        raise _refused("it is not valid yet", "session_early")
    if now_s >= grant.expires_s:
        raise _refused("it has expired", "session_expired")
    key = ssh_key.line(ssh_key.parse(grant.operator))
    if trust is None:
        return Principal("founder", ssh_key.fingerprint(ssh_key.parse(key)), key)
    operator = by_key(trust).get(key)
    if operator is None:
        raise _refused("its key belongs to no operator of this fleet", "unknown_operator")
    return Principal("operator", operator.name, key, grade=operator.grade)


def _refused(why: str, code: str = "session_refused") -> Unauthenticated:
    return Unauthenticated(
        f"the session is refused: {why}",
        remedy="run the command again with the key of an operator listed under [[operators]] (--key FILE); "
        "that creates a new session",
        code=code,
    )
