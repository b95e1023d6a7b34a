"""What must hold of how a gate learns its facts: from the journal and the disk, and always on the safe side."""

from collections.abc import Iterator
from typing import Any

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.errors import Corrupt
from holdfast.gate.acts import Data, Provenance
from holdfast.model.journal import Operation
from holdfast.ports.storage import DataDirectory


class BrokenJournal(MemoryJournal):
    def made_by(self, path: str) -> str | None:
        raise Corrupt("the journal is damaged", remedy="holdfast agent check")


def journal() -> MemoryJournal:
    """now: under way, made /now · then: finished, made /then and the scratch /scratch · nobody made /found."""
    made = MemoryJournal()
    for name in ("then", "now"):
        made.begin(Operation(name, "deploy", "web", 1.0))
    made.note_made("/then", "then", scratch=False)
    made.note_made("/scratch", "then", scratch=True)
    made.note_made("/now", "now", scratch=False)
    made.finish("then", "done")
    return made


def complaints(facts: Any) -> Iterator[str]:
    wanted = [
        ("/now", "now", Provenance.OWN_TRANSACTION),
        ("/now", None, Provenance.OWN_EARLIER),
        ("/now", "then", Provenance.OWN_EARLIER),
        ("/now", "other", Provenance.OWN_EARLIER),
        ("/then", "then", Provenance.OWN_EARLIER),  # that operation is over: what it made has become somebody's data
        ("/then", "now", Provenance.OWN_EARLIER),
        ("/scratch", "now", Provenance.OWN_SCRATCH),
        ("/scratch", None, Provenance.OWN_SCRATCH),
        ("/found", "now", Provenance.FOREIGN),
        ("/found", None, Provenance.FOREIGN),
    ]
    for path, operation, answer in wanted:
        found = facts.provenance(journal(), path, operation)
        if found is not answer:
            yield f"{path} during {operation}: {found}"
    if facts.provenance(BrokenJournal(), "/now", "now") is not Provenance.UNKNOWN:
        yield "a damaged journal vouches for something"
    full, empty = DataDirectory("web", "/now", 1, 10, 1), DataDirectory("web", "/now", 0, 0, 0)
    hollow = DataDirectory("web", "/now", 0, 0, 1)  # a directory inside: where something is mounted, for one
    for directory, copies, data in [
        (None, 0, Data.NOTHING),
        (None, 3, Data.NOTHING),
        (empty, 0, Data.EMPTY),
        (hollow, 0, Data.MAYBE_ONLY_COPY),
        (full, 0, Data.MAYBE_ONLY_COPY),
        (full, 1, Data.COPIED),
        (full, -1, Data.MAYBE_ONLY_COPY),
    ]:
        if facts.data(directory, copies) is not data:
            yield f"{directory} with {copies} copies: {facts.data(directory, copies)}"
    looked = facts.look(journal(), full, "now")
    if (looked.provenance, looked.data) != (Provenance.OWN_TRANSACTION, Data.MAYBE_ONLY_COPY):
        yield f"looking finds {looked}"
    absent = facts.look(journal(), None, "now", 2)
    if (absent.provenance, absent.data) != (Provenance.FOREIGN, Data.NOTHING):
        yield f"looking at nothing finds {absent}"
