"""The answer of the gate about data and copies: the proof that storage needs, or an error with the command to sign."""

from typing import TypeVar

from holdfast.errors import SignatureRequired
from holdfast.gate.decide import Park

Proof = TypeVar("Proof")


def granted(decision: Proof | Park) -> Proof:
    if isinstance(decision, Park):
        raise SignatureRequired(decision.reason, remedy=decision.sign)
    return decision
