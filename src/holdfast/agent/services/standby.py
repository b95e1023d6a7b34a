"""Hints of the hub about services: which to run for a silent node, and which moved ones are proven elsewhere."""

import msgspec

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Hints, Say
from holdfast.errors import HoldfastError
from holdfast.model.manifest import NodeManifest
from holdfast.ports.journal import Journal

STANDBY_FACT = "standby"


class Standby:
    """`named` are addresses of services of other nodes that run here; the journal keeps them over restarts."""

    def __init__(self, journal: Journal, findings: Findings, say: Say) -> None:
        self._journal = journal
        self._findings = findings
        self._say = say
        self.named = frozenset(msgspec.json.decode(journal.fact(STANDBY_FACT) or b"[]", type=list[str]))
        self.released: frozenset[str] = frozenset()  # moved away and proven at their new home

    def stand_in(self, hints: Hints, manifest: NodeManifest) -> bool:
        """True if it changed. Only services that the signed manifest lists as standby count."""
        named = hints.get("standby")
        if named is None:
            return False
        listed = frozenset(named) & manifest.standby.keys()
        if listed == self.named:
            return False
        try:
            self._journal.set_aside(STANDBY_FACT, msgspec.json.encode(sorted(listed)))
        except HoldfastError as trouble:  # the hub sends the hint again
            self._findings.add_trouble("state_unwritable", trouble)
            return False
        self.named = listed
        self._say("standby", {"services": sorted(listed)})
        return True

    def release(self, hints: Hints, here: list[str]) -> bool:
        """True if it changed. A service that moved serves here until its new home is proven."""
        ours = frozenset(hints.get("released", ())).intersection(f"service.{name}" for name in here)
        is_news = ours != self.released
        self.released = ours
        return is_news
