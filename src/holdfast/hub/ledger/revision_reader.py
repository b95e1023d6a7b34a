"""One loaded revision, read: for a hub, and for commands on a ledger directory. Writes nothing."""

from collections.abc import Mapping, Sequence

from holdfast import __version__
from holdfast.hub.ledger import reading
from holdfast.ledger.boot_findings import LOST_CODES, Finding, finding, quarantined
from holdfast.model import canonical
from holdfast.model.applied import Applied, head_of, needed
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.ids import kind_of
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import Head
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerReader


class RevisionReader:
    """Serves what it loaded; a head that another process moved is reported, not followed (C-16)."""

    def __init__(
        self, store: LedgerReader, clock: Clock, loaded: reading.Loaded, findings: Sequence[Finding] | None = None
    ) -> None:
        """`findings` of the boot, which has read every content; None: the contents were not checked."""
        self._store = store
        self._clock = clock
        self._loaded = reading.rebound(loaded, store)  # the boot may have read with another handle
        self._findings = tuple(findings or ())
        self._since_s = clock.monotonic_s()
        self._coming: Head | None = None  # being written by this very object
        self._suspect = findings is None  # or a content could not be read as its digest says; ends with a sweep

    def applied(self) -> Applied | None:
        return self._loaded.applied

    def records(self, newest: int, limit: int) -> list[RevisionRecord]:
        """Of what is served: a revision that another process committed is not in this history yet."""
        top = head_of(self._loaded.applied).number
        return reading.records(self._store, min(newest, top) if newest else top, limit)

    def links(self, first: int, last: int) -> list[Link]:
        return reading.links(self._store, first, last)

    def blob(self, digest: str) -> bytes | None:
        found = self._store.blob(digest)
        if found is None or canonical.digest(found) != digest:
            self._suspect = True
        return found

    def observations(self) -> Mapping[str, NodeObservation]:
        return reading.observations(self._store)

    def status(self) -> HubStatus:
        applied, head, behind = self._heads()
        serving = head_of(applied)
        findings = list(self._findings)
        if behind:
            findings.append(revision_behind(serving, head))
        held = quarantined(findings)
        kinds: dict[str, int] = {}
        for address in applied.table.entries if applied else ():
            if address not in held:
                kinds[kind_of(address)] = kinds.get(kind_of(address), 0) + 1
        age_s = round(self._clock.monotonic_s() - self._since_s, 3)
        shown = tuple(StatusFinding(f.code, f.level, f.message, f.remedy, f.address, age_s) for f in findings)
        fleet = applied.fleet_id if applied else ""
        return HubStatus(__version__, "ledger", fleet, serving, head, kinds, tuple(sorted(held)), shown)

    def _heads(self) -> tuple[Applied | None, Head, bool]:
        """What is served, what the ledger has, and whether another process moved it (not our own commit)."""
        while True:
            loaded, head, coming = self._loaded, reading.head_of(self._store), self._coming
            if loaded is self._loaded:
                return loaded.applied, head, head not in (head_of(loaded.applied), coming)

    def suspects_damage(self) -> bool:
        return self._suspect or any(found.code in LOST_CODES for found in self._findings)

    def damaged(self) -> list[str]:
        applied = self._loaded.applied
        self._suspect = False  # before the sweep: a read beside it may find more
        found = self._damaged(needed(applied)) if applied else []
        self._suspect = self._suspect or bool(found)
        return found

    def _damaged(self, digests: Sequence[str]) -> list[str]:
        return [digest for digest, stored in reading.stored_digests(self._store, digests) if stored != digest]


def revision_behind(serving: Head, head: Head) -> Finding:
    text = f"this hub serves revision {serving.number}, but revision {head.number} is in its ledger"
    return finding("revision_behind", text)
