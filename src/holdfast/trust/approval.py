"""Check that a revision has enough signatures: grades, thresholds, scopes. The only maker of `Approved`. Pure."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.errors import Corrupt, NotPermitted, SignatureRequired
from holdfast.model import ssh_key
from holdfast.model.fleet import Grade, Operator
from holdfast.model.record import Signer
from holdfast.model.revision import NAMESPACE
from holdfast.model.size import counted
from holdfast.model.trust import Trust, may_sign, needs_touch, outside_scope, threshold
from holdfast.trust import sshsig

SIGNATURES_MAX = 32


class Approved(Struct, frozen=True):
    """Proof that a header was signed by enough operators of the right grade."""

    grade: Grade
    signers: tuple[Signer, ...]


def by_key(trust: Trust) -> dict[str, Operator]:
    """Operators by key, without its comment: two operators with the same key count as one signer."""
    return {" ".join(operator.key.split()[:2]): operator for operator in trust.operators}


def verified_keys(message: bytes, signatures: Sequence[str]) -> tuple[str, ...]:
    """The keys that signed, of operators or not. One forged signature refuses all."""
    if len(signatures) > SIGNATURES_MAX:
        raise Corrupt("too many signatures on one revision", remedy="sign the plan again", code="signature_invalid")
    found: dict[str, None] = {}
    for armoured in signatures:
        parsed = sshsig.parse(armoured)
        sshsig.check(message, parsed, NAMESPACE)
        found[ssh_key.line(parsed.key)] = None
    return tuple(found)


def refuse_strangers(keys: Sequence[str], trust: Trust, also: Trust | None = None) -> None:
    """Every signer is an operator of the fleet, or becomes one by this revision."""
    known = by_key(trust).keys() | (by_key(also).keys() if also else set())
    for key in keys:
        if key not in known:
            raise _stranger(key)


def refuse_unsigned(keys: Sequence[str], trust: Trust) -> None:
    """The cheap check before every expensive one: did an operator of this fleet sign this?"""
    if not keys:
        raise _lacking("0 given")
    if not by_key(trust).keys() & set(keys):
        raise _stranger(keys[0])


def _stranger(key: str) -> NotPermitted:
    return NotPermitted(
        f"the key {ssh_key.fingerprint(ssh_key.parse(key))} signed this revision, "
        "but it belongs to no operator of this fleet",
        remedy="sign with the key of an operator listed under [[operators]] in fleet.toml (--key FILE)",
        code="unknown_signer",
    )


def missing(trust: Trust, keys: Iterable[str], grade: Grade, addresses: Sequence[str]) -> str | None:
    """What is still missing under this trust, as text; None when the threshold is met."""
    wanted = threshold(trust, grade)
    operators = by_key(trust)
    eligible = [operators[key] for key in keys if key in operators and may_sign(trust, operators[key], grade)]
    narrow = [(operator, outside_scope(operator, addresses)) for operator in eligible]
    signed = [operator for operator, outside in narrow if outside is None]
    if len(signed) >= wanted:
        return None
    could = sorted(o.name for o in trust.operators if may_sign(trust, o, grade) and o not in signed)
    outside = "".join(f"; {o.name} may not sign for {address}" for o, address in narrow if address is not None)
    names = ", ".join(could) or "no operator"
    touch = ' of security keys (destroy_requires = "touch")' if needs_touch(trust, grade) else ""
    needed = counted(wanted, "signature")
    return f"grade {grade} needs {needed}{touch}, {len(signed)} given{outside}; these could sign: {names}"


def approve(
    message: bytes,
    signatures: Sequence[str],
    grade: Grade,
    addresses: Sequence[str],
    trust: Trust,
    incoming: Trust | None = None,
) -> Approved:
    """`incoming` is set when the revision changes trust: the root threshold of the old *and* the new must be met."""
    return approve_keys(verified_keys(message, signatures), grade, addresses, trust, incoming)


def approve_keys(
    keys: Sequence[str], grade: Grade, addresses: Sequence[str], trust: Trust, incoming: Trust | None = None
) -> Approved:
    """The same for keys whose signatures were verified before."""
    refuse_strangers(keys, trust, incoming)
    lacking = missing(trust, keys, grade, addresses)
    if lacking is None and incoming is not None:
        lacking = missing(incoming, keys, "root", addresses)
        lacking = lacking and f"under the new trust, {lacking}"
    if lacking is not None:
        raise _lacking(lacking)
    operators = (by_key(incoming) if incoming else {}) | by_key(trust)
    return Approved(grade, tuple(_signer(key, operators[key]) for key in sorted(keys)))


def _lacking(why: str) -> SignatureRequired:
    return SignatureRequired(
        f"this change needs more signatures: {why}",
        remedy="holdfast plan -o change.plan && holdfast sign change.plan --key KEY && holdfast apply change.plan",
    )


def _signer(line: str, operator: Operator) -> Signer:
    return Signer(operator.name, ssh_key.fingerprint(ssh_key.parse(line)), operator.grade)
