"""Sign a plan with the operator's key, and name the signatures that are still missing."""

from argparse import Namespace

import msgspec

from holdfast.cli import flags
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt, NotPermitted, SignatureRequired
from holdfast.model import ssh_key
from holdfast.model.applied import Applied
from holdfast.model.fleet import Grade, Operator
from holdfast.model.plan import Plan
from holdfast.model.revision import NAMESPACE, Candidate, decode_header
from holdfast.model.trust import Trust, may_sign, outside_scope, threshold


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
    current, incoming = trusts(plan, applied)
    operators = {ssh_key.parse(o.key).blob: o for t in (incoming, current) if t for o in t.operators}
    signer = box.signer(args.key, lambda blob: blob in operators)
    if signer.public_key.blob not in operators:
        raise NotPermitted(
            f"your key {ssh_key.fingerprint(signer.public_key)} belongs to no operator of this fleet",
            remedy="sign with an operator's key (--key FILE), or ask an operator of grade root to add it to fleet.toml",
            code="unknown_signer",
        )
    return signer.sign(plan.candidate.header, NAMESPACE)


def refuse_if_hopeless(plan: Plan, applied: Applied | None, args: Namespace, box: Toolbox) -> None:
    """Fail before asking if this operator's one signature cannot be enough; the remedy collects the others."""
    current, incoming = trusts(plan, applied)
    operators = {ssh_key.parse(o.key).blob: o for o in current.operators}
    signer = box.signer(args.key, lambda blob: blob in operators)
    operator = operators.get(signer.public_key.blob)
    reason = _lacking(plan, current, operator)
    if operator is None and incoming and _is_in(incoming, signer.public_key.blob):
        reason = "your key is only in the new [[operators]], and an operator of the applied revision must sign"
    if reason is None and incoming is not None and threshold(incoming, "root") > 1:
        reason = f"the new [trust] needs {threshold(incoming, 'root')} signatures of grade root"
    if reason is not None:
        both = " by the old and the new trust" if incoming else ""
        able = _able(plan.grade, current)
        raise SignatureRequired(f"{reason}; operators who can sign{both}: {able}", remedy=commands(args))


def _lacking(plan: Plan, trust: Trust, operator: Operator | None) -> str | None:
    grade = plan.grade
    reasons = sorted({d.reason for change in plan.changes for d in change.demands if d.grade == grade})
    because = f" ({'; '.join(reasons[:3])})" if reasons else ""
    if operator is None:
        return None  # sign() explains it
    outside = outside_scope(operator, (change.address for change in plan.changes))
    if outside is not None:
        return f"{operator.name} may sign for {', '.join(operator.scope)} only, not for {outside}"
    if not may_sign(operator, grade):
        return f"this plan needs grade {grade}{because}; {operator.name} has grade {operator.grade}"
    if threshold(trust, grade) > 1:
        return f"grade {grade} needs {threshold(trust, grade)} signatures in this fleet"
    return None


def _is_in(trust: Trust, blob: bytes) -> bool:
    return any(ssh_key.parse(operator.key).blob == blob for operator in trust.operators)


def _able(grade: Grade, trust: Trust) -> str:
    return ", ".join(sorted(o.name for o in trust.operators if may_sign(o, grade))) or "no operator"


def commands(args: Namespace) -> str:
    """The commands that collect the signatures; KEY is the key file of an operator who can sign."""
    where = flags.repeated(args)
    return (
        f"holdfast plan -o change.plan{where} && holdfast sign change.plan --key KEY && "
        f"holdfast apply change.plan{where}"
    )


def signed(candidate: Candidate, armoured: str) -> Candidate:
    return msgspec.structs.replace(candidate, signatures=(*candidate.signatures, armoured))
