"""Sign a plan with the operator's key, and name the signatures that are still missing."""

from argparse import Namespace
from collections.abc import Iterable

import msgspec

from holdfast.cli import flags
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt, SignatureRequired
from holdfast.model import ssh_key
from holdfast.model.applied import Applied
from holdfast.model.fleet import Grade, Operator
from holdfast.model.plan import Plan, covered
from holdfast.model.revision import NAMESPACE, Candidate, decode_header
from holdfast.model.trust import Trust, may_sign, needs_touch, outside_scope, threshold, too_low
from holdfast.ports.signer import Signer, UnknownSigner


def trusts(plan: Plan, applied: Applied | None) -> tuple[Trust, Trust | None]:
    """The trust that this plan is checked against, and the new trust if it changes."""
    candidate = plan.candidate
    assert candidate is not None
    digest = decode_header(candidate.header).trust
    content = candidate.blobs.get(digest)
    incoming = msgspec.json.decode(content, type=Trust) if content is not None else None
    if incoming is None and (applied is None or applied.header.trust != digest):
        raise Corrupt(
            "this plan changes the trusted operators, but does not contain the new list",
            remedy="plan again",
            code="plan_damaged",
        )
    if applied is None:
        assert incoming is not None
        return incoming, None
    return applied.trust, incoming if incoming != applied.trust else None


def sign(plan: Plan, applied: Applied | None, args: Namespace, box: Toolbox) -> str:
    """One armoured signature by this operator's key over exactly the planned header."""
    assert plan.candidate is not None
    return signer_of(plan, applied, args, box).sign(plan.candidate.header, NAMESPACE)


def signer_of(plan: Plan, applied: Applied | None, args: Namespace, box: Toolbox) -> Signer:
    """The signer of the caller, an operator of the trust of now or of the new one."""
    current, incoming = trusts(plan, applied)
    return operator_signer((*current.operators, *(incoming.operators if incoming else ())), args, box)


def operator_signer(operators: Iterable[Operator], args: Namespace, box: Toolbox) -> Signer:
    """The signer of the caller, who must be one of these operators."""
    blobs = {ssh_key.parse(operator.key).blob for operator in operators}
    signer = box.keys.signer(args.key, lambda blob: blob in blobs)
    if signer.public_key.blob not in blobs:
        raise UnknownSigner(signer.public_key)
    return signer


def check_threshold(plan: Plan, applied: Applied | None, candidate: Candidate, args: Namespace) -> None:
    """Refuse a saved plan that has signatures, but not enough."""
    from holdfast.trust.approval import approve

    current, incoming = trusts(plan, applied)
    addresses = covered(plan.changes)
    try:
        approve(candidate.header, candidate.signatures, plan.grade, addresses, current, incoming)
    except SignatureRequired as trouble:
        from shlex import quote

        file = quote(args.file)
        remedy = f"holdfast sign {file} --key KEY && holdfast apply {file}{flags.repeated(args)}"
        raise SignatureRequired(trouble.message, remedy=remedy) from trouble


def refuse_if_hopeless(plan: Plan, applied: Applied | None, args: Namespace, box: Toolbox) -> None:
    """Fail before asking if this operator's one signature cannot be enough; the remedy collects the others."""
    current, incoming = trusts(plan, applied)
    operators = {ssh_key.parse(o.key).blob: o for o in current.operators}
    signer = box.keys.signer(args.key, lambda blob: blob in operators)
    operator = operators.get(signer.public_key.blob)
    if operator is None and not (incoming and _is_in(incoming, signer.public_key.blob)):
        raise UnknownSigner(signer.public_key)  # before the question: the answer would not matter (N40)
    reason = _lacking(plan, current, operator)
    if operator is None:
        reason = "your key is only in the new [[operators]], and an operator of the applied revision must sign"
    if reason is None and incoming is not None and threshold(incoming, "root") > 1:
        reason = f"the new [trust] needs {threshold(incoming, 'root')} signatures of grade root"
    count = max(threshold(current, plan.grade), threshold(incoming, "root") if incoming else 1)
    plain = not ssh_key.needs_touch(ssh_key.line(signer.public_key))
    if reason is None and incoming is not None and needs_touch(incoming, "root") and plain:
        touch = _able("root", incoming)
        reason = f"the new [trust] needs a security key as well, of one of: {touch}; yours needs no touch"
        count += 1
    if reason is not None:
        both = " by the old and the new trust" if incoming else ""
        able = _able(plan.grade, current)
        raise SignatureRequired(f"{reason}; operators who can sign{both}: {able}", remedy=commands(count, args))


def _lacking(plan: Plan, trust: Trust, operator: Operator | None) -> str | None:
    grade = plan.grade
    reasons = sorted({d.reason for change in plan.changes for d in change.demands if d.grade == grade})
    because = f" ({'; '.join(reasons[:3])})" if reasons else ""
    if operator is None:
        return None
    outside = outside_scope(operator, covered(plan.changes))
    if outside is not None:
        return f"{operator.name} may sign for {', '.join(operator.scope)} only, not for {outside}"
    if not may_sign(trust, operator, grade):
        return f"this plan needs grade {grade}{because}; {too_low(operator, grade)}"
    if threshold(trust, grade) > 1:
        return f"grade {grade} needs {threshold(trust, grade)} signatures in this fleet"
    return None


def _is_in(trust: Trust, blob: bytes) -> bool:
    return any(ssh_key.parse(operator.key).blob == blob for operator in trust.operators)


def _able(grade: Grade, trust: Trust) -> str:
    return ", ".join(sorted(o.name for o in trust.operators if may_sign(trust, o, grade))) or "no operator"


def commands(signatures: int, args: Namespace) -> str:
    """The commands that collect the signatures; each KEY is the key file of an operator who can sign."""
    where = flags.repeated(args)
    others = "".join(f"holdfast sign change.plan --key KEY{number} && " for number in range(2, signatures + 1))
    return (
        f"holdfast plan -o change.plan{where} && holdfast sign change.plan --key KEY && "
        f"{others}holdfast apply change.plan{where}"
    )


def signed(candidate: Candidate, armoured: str) -> Candidate:
    return msgspec.structs.replace(candidate, signatures=(*candidate.signatures, armoured))
