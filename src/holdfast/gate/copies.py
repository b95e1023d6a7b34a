"""Whether a checkpoint may be discarded: the only maker of the proof that storage needs. Pure."""

from holdfast.gate.acts import Act, Data
from holdfast.gate.authority import NOBODY
from holdfast.gate.decide import Deed, Park, decide
from holdfast.gate.facts import Facts, provenance
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Checkpoint, Discardable


def may_discard(journal: Journal, checkpoint: Checkpoint, node: str) -> Discardable | Park:
    """Needs no signature, so only for a checkpoint that this agent's own journal marks as scratch."""
    facts = Facts(provenance(journal, checkpoint.path, None), Data.MAYBE_ONLY_COPY)
    target = f"checkpoint.{checkpoint.service}.{checkpoint.id}"
    decision = decide(Deed(Act.DESTROY_COPY, target, node, facts, NOBODY))
    return decision if isinstance(decision, Park) else Discardable(checkpoint)
