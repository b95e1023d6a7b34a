"""Do these signatures carry this revision? Grades, thresholds, scopes; the only maker of `Approved`. Pure."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.errors import Corrupt, NotPermitted, SignatureRequired
from holdfast.model import ssh_key
from holdfast.model.fleet import Grade, Operator
from holdfast.model.record import Signer
from holdfast.model.revision import NAMESPACE
from holdfast.model.trust import Trust, may_sign, outside_scope, threshold
from holdfast.trust import sshsig

SIGNATURES_MAX = 32


class Approved(Struct, frozen=True):
    """Proof that a header was signed by enough operators of the right grade."""

    grade: Grade
    signers: tuple[Signer, ...]


def signed_by(
    message: bytes, signatures: Sequence[str], trust: Trust, also: Trust | None = None
) -> dict[str, Operator]:
    """Fingerprint → operator, every signature checked. `also` is the incoming trust of a root rotation."""
    if len(signatures) > SIGNATURES_MAX:
        raise Corrupt("too many signatures on one revision", remedy="sign the plan anew", code="signature_invalid")
    known = {ssh_key.parse(o.key).blob: o for t in (also, trust) if t is not None for o in t.operators}
    found: dict[str, Operator] = {}
    for armoured in signatures:
        key = sshsig.parse(armoured).key
        operator = known.get(key.blob)
        if operator is None:
            raise NotPermitted(
                f"the key {ssh_key.fingerprint(key)} signed this revision, but it belongs to no operator of this fleet",
                remedy="sign with the key of an operator listed under [[operators]] in fleet.toml (--key FILE)",
                code="unknown_signer",
            )
        sshsig.verify(message, armoured, NAMESPACE, key)
        found[ssh_key.fingerprint(key)] = operator
    return found


def missing(trust: Trust, fingerprints: Iterable[str], grade: Grade, addresses: Sequence[str]) -> str | None:
    """In words, what is still lacking under this trust; None when the threshold is met."""
    wanted = threshold(trust, grade)
    by_print = {ssh_key.fingerprint(ssh_key.parse(o.key)): o for o in trust.operators}
    eligible = [by_print[f] for f in fingerprints if f in by_print and may_sign(by_print[f], grade)]
    narrow = [(o, outside_scope(o, addresses)) for o in eligible]
    counted = [o for o, outside in narrow if outside is None]
    if len(counted) >= wanted:
        return None
    could = sorted(o.name for o in trust.operators if may_sign(o, grade) and o not in counted)
    outside = "".join(f"; {o.name} may not sign for {address}" for o, address in narrow if address is not None)
    names = ", ".join(could) or "nobody"
    return f"grade {grade} needs {wanted} signature(s), {len(counted)} given{outside}; who could sign: {names}"


def approve(
    message: bytes,
    signatures: Sequence[str],
    grade: Grade,
    addresses: Sequence[str],
    trust: Trust,
    incoming: Trust | None = None,
) -> Approved:
    """`incoming` is set when the revision changes trust: the root threshold of the old *and* the new must be met."""
    signers = signed_by(message, signatures, trust, incoming)
    lacking = missing(trust, signers, grade, addresses)
    if lacking is None and incoming is not None:
        lacking = missing(incoming, signers, "root", addresses)
        lacking = lacking and f"under the new trust, {lacking}"
    if lacking is not None:
        raise SignatureRequired(
            f"this change is not signed well enough: {lacking}",
            remedy="holdfast plan -o change.plan; holdfast sign change.plan --key KEY-OF-THAT-GRADE; "
            "holdfast apply change.plan",
        )
    return Approved(grade, tuple(Signer(o.name, print_, o.grade) for print_, o in sorted(signers.items())))
