"""Verify which hub is the newest: operators of grade destroy signed its generation. Pure."""

from holdfast.errors import NotPermitted
from holdfast.model.hub_generation import NAMESPACE, Generation, SignedGeneration, decode
from holdfast.model.ids import FLEET
from holdfast.model.trust import Trust
from holdfast.trust import endorsement

WHAT = "the restored hub"
BYTES_MAX = 8 * 1024


def verify(signed: SignedGeneration, fleet: str, trust: Trust) -> Generation:
    """The statement, if operators of this trust may say so; raises otherwise."""
    if len(signed.generation) > BYTES_MAX:
        raise _refused("it is too long")
    said = decode(signed.generation)
    if said.fleet != fleet:
        raise _refused(f"it is for the fleet {said.fleet[:12]}…")
    if said.number < 1 or not said.id:
        raise _refused("it has no number or no id")
    endorsement.signers(
        signed.generation,
        signed.signatures,
        NAMESPACE,
        "destroy",
        (FLEET,),
        trust,
        WHAT,
        "run the same command with --key FILE and the key of an operator of grade destroy",
    )
    return said


def _refused(why: str) -> NotPermitted:
    return NotPermitted(
        f"the generation of the hub is refused: {why}",
        remedy="restore the hub of this fleet: holdfast hub restore FILE",
        code="generation_refused",
    )
