"""Remember why parts of a revision are parked, over restarts."""

from collections.abc import Sequence

import msgspec

from holdfast.agent.acceptance import manifest_grades
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import Parked
from holdfast.ports.acceptance import Accepted
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal

PARKED_FACT = "parked"

_decode = msgspec.json.Decoder(tuple[Parked, ...]).decode


class ParkedNotes:
    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def keep(self, parked: Sequence[Parked]) -> None:
        """Before the revision is in force: a crash in between leaves a note too many, not one too few."""
        if parked:
            self._journal.set_aside(PARKED_FACT, msgspec.json.encode(parked))

    def still(self, newest: Accepted, in_force: NodeManifest) -> tuple[Parked, ...]:
        """Everything in which the newest manifest and the one in force differ."""
        said = newest.manifest or newest.said
        if said == newest.in_force or not said:
            return ()
        noted = {parked.address: parked for parked in _decode(self._journal.fact(PARKED_FACT) or b"[]")}
        apart = manifest_grades.differing(manifest_grades.decode_manifest(said), in_force)
        now_s = self._clock.now_s()
        return tuple(noted.get(a) or manifest_grades.noted(a, "destroy", manifest_grades.UNSAID, now_s) for a in apart)
