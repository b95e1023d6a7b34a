"""One operator's signature on an invite or a revocation, both of grade destroy."""

from argparse import Namespace

from holdfast.cli.tools import Toolbox
from holdfast.errors import SignatureRequired
from holdfast.model import ssh_key
from holdfast.model.trust import Trust, may_sign, outside_scope, threshold, too_low
from holdfast.ports.signer import UnknownSigner


def sign(content: bytes, namespace: str, address: str, trust: Trust, remedy: str, args: Namespace, box: Toolbox) -> str:
    """`remedy` is for fleets where one signature is not enough."""
    operators = {ssh_key.parse(operator.key).blob: operator for operator in trust.operators}
    signer = box.keys.signer(args.key, lambda blob: blob in operators)
    operator = operators.get(signer.public_key.blob)
    able = ", ".join(sorted(o.name for o in trust.operators if may_sign(trust, o, "destroy"))) or "no operator"
    if operator is None:
        raise UnknownSigner(signer.public_key, f"sign with the key of one of: {able} (--key FILE)")
    outside = outside_scope(operator, (address,))
    if outside is not None or not may_sign(trust, operator, "destroy"):
        scope = f"{operator.name} may not sign for {outside}"
        what = scope if outside is not None else too_low(operator, "destroy")
        raise SignatureRequired(
            f"this needs grade destroy, and {what}; operators who can sign: {able}",
            remedy="run the same command with --key FILE and the key of one of them",
        )
    if threshold(trust, "destroy") > 1:
        raise SignatureRequired(
            f"grade destroy needs {threshold(trust, 'destroy')} signatures in this fleet, and this command gives one",
            remedy=remedy,
        )
    return signer.sign(content, namespace)
