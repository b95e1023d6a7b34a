"""One loaded revision, read: for a hub, and for commands on a ledger directory. Writes nothing."""

from collections.abc import Mapping, Sequence

from holdfast import __version__
from holdfast.hub.ledger import reading
from holdfast.ledger.boot_findings import LOST_CODES, Finding, content_findings, finding, quarantined
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
        self._contents = reading.Contents(store, self.blob)
        self._loaded = reading.rebound(loaded, self._contents)  # the boot may have read with another handle
        self._findings = tuple(findings or ())
        self._since_s = clock.monotonic_s()
        self._coming: Head | None = None  # being written by this very object
        self._unchecked = findings is None  # ends with a sweep
        self._lost: dict[str, str | None] = {}  # contents that a read met damaged → digest of what is there

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
        stored = None if found is None else canonical.digest(found)
        if stored != digest:
            self._note_lost({digest: stored})
        return found

    def _note_lost(self, stored: Mapping[str, str | None]) -> None:
        """A client may ask for any digest, so only those that the applied revision needs count."""
        applied = self._loaded.applied
        wanted = set(needed(applied)) if applied else set()
        self._lost = {**self._lost, **{digest: found for digest, found in stored.items() if digest in wanted}}

    def observations(self) -> Mapping[str, NodeObservation]:
        return reading.observations(self._store)

    def status(self) -> HubStatus:
        if self._unchecked:
            self.damaged()  # else damage that no read has met would be left out
        applied, head, behind = self._heads()
        serving = head_of(applied)
        findings = [*self._findings, *self._met(applied)]
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

    def _met(self, applied: Applied | None) -> list[Finding]:
        """Damage that a read has met, as a boot would report it, unless it was known at boot."""
        lost, known = self._lost, {(found.code, found.address) for found in self._findings}
        if applied is None or not lost:
            return []
        stored = {digest: digest for digest in needed(applied)} | lost
        found = content_findings(applied.table, applied.header.manifests, stored.items())
        return [one for one in found if one.code in LOST_CODES and (one.code, one.address) not in known]

    def suspects_damage(self) -> bool:
        return self._unchecked or bool(self._lost) or any(found.code in LOST_CODES for found in self._findings)

    def damaged(self) -> list[str]:
        applied = self._loaded.applied
        self._unchecked, self._lost = False, {}  # before the sweep: a read beside it may find more
        found = self._stored_wrong(needed(applied)) if applied else {}
        self._note_lost(found)
        return list(found)

    def _stored_wrong(self, digests: Sequence[str]) -> dict[str, str | None]:
        """Those that are missing or damaged, with the digest of what is there."""
        stored = reading.stored_digests(self._store, digests)
        return {digest: found for digest, found in stored if found != digest}


def revision_behind(serving: Head, head: Head) -> Finding:
    text = f"this hub serves revision {serving.number}, but revision {head.number} is in its ledger"
    return finding("revision_behind", text)
