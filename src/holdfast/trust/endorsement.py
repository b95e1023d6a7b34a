"""Check the signatures on a statement that is not a revision: invite, order, revocation. Pure."""

from collections.abc import Sequence

from holdfast.errors import Corrupt, NotPermitted, SignatureRequired
from holdfast.model import ssh_key
from holdfast.model.fleet import Grade
from holdfast.model.record import Signer
from holdfast.model.trust import Trust
from holdfast.trust import sshsig
from holdfast.trust.approval import SIGNATURES_MAX, by_key, missing


def signing_keys(message: bytes, signatures: Sequence[str], namespace: str, what: str) -> tuple[str, ...]:
    """The keys that signed, of operators or not. One forged signature refuses all."""
    if len(signatures) > SIGNATURES_MAX:
        raise Corrupt(f"too many signatures on {what}", remedy=f"sign {what} again", code="signature_invalid")
    found: dict[str, None] = {}
    for armoured in signatures:
        parsed = sshsig.parse(armoured)
        sshsig.check(message, parsed, namespace)
        found[ssh_key.line(parsed.key)] = None
    return tuple(found)


def signers(
    message: bytes,
    signatures: Sequence[str],
    namespace: str,
    grade: Grade,
    addresses: Sequence[str],
    trust: Trust,
    what: str,
    remedy: str,
) -> tuple[Signer, ...]:
    """The signers, once operators whose scope covers every address meet the threshold of this grade."""
    keys = signing_keys(message, signatures, namespace, what)
    operators = by_key(trust)
    for key in keys:
        if key not in operators:
            raise NotPermitted(
                f"the key {ssh_key.fingerprint(ssh_key.parse(key))} signed {what}, "
                "but it belongs to no operator of this fleet",
                remedy="sign with the key of an operator listed under [[operators]] in fleet.toml (--key FILE)",
                code="unknown_signer",
            )
    lacking = missing(trust, keys, grade, addresses)
    if lacking is not None:
        raise SignatureRequired(f"{what} needs more signatures: {lacking}", remedy=remedy)
    return tuple(
        Signer(operators[key].name, ssh_key.fingerprint(ssh_key.parse(key)), operators[key].grade)
        for key in sorted(keys)
    )
