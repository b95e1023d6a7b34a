"""One loaded revision, and commits on top of it. Serves HTTP and the offline command line alike."""

from collections.abc import Mapping, Sequence

from holdfast.errors import Conflict, Corrupt, HoldfastError
from holdfast.hub.ledger import commit, commit_write, reading, recoveries
from holdfast.hub.ledger.commit import Preview
from holdfast.hub.ledger.revision_reader import RevisionReader, revision_behind
from holdfast.ledger import keys
from holdfast.ledger.boot_findings import CONTENT_CODES, MANIFEST_CODES, SECRET_LOST, Finding, finding, lost_digest
from holdfast.model import canonical
from holdfast.model.applied import Applied, head_of, needed
from holdfast.model.revision import Candidate, Head
from holdfast.ports.clock import Clock
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerStore, Reading, Transaction
from holdfast.ports.random_source import RandomSource


class Revisions(RevisionReader):
    """The same, and takes signed revisions."""

    def __init__(
        self,
        store: LedgerStore,
        clock: Clock,
        random: RandomSource,
        high_water: HighWater,
        loaded: reading.Loaded,
        findings: Sequence[Finding] | None = None,
    ) -> None:
        super().__init__(store, clock, loaded, findings)
        self._writable = store
        self._random = random
        self._high_water = high_water

    def commit(self, candidate: Candidate) -> Head:
        """Preview, write, swap what is served, raise the high-water mark. Acknowledged only when durable."""
        ready = self._preview(candidate)
        before, base = self._loaded.applied, self._loaded.head_version
        applied = Applied(ready.head, ready.header, ready.table, ready.trust, self._contents)
        self._coming = ready.head
        try:
            version = commit_write.write(self._writable, base, ready, candidate.signatures, self._clock, self._random)
            self._loaded = reading.Loaded(applied, version)
        finally:
            self._coming = None
        self._findings = tuple(f for f in self._findings if _still_true(f, before, applied))
        self._raise_mark(ready.head)
        return ready.head

    def _raise_mark(self, head: Head) -> None:
        """The revision is committed by now: a mark that cannot be raised is a finding, not a failure."""
        self._findings = tuple(f for f in self._findings if f.code != "high_water_behind")
        try:
            self._high_water.raise_to(head)
        except HoldfastError as trouble:
            self._findings += (finding("high_water_behind", trouble.message),)

    def _preview(self, candidate: Candidate) -> Preview:
        try:
            return self._checked(candidate)
        except Corrupt as trouble:
            self._unchecked = self._unchecked or trouble.code in CONTENT_CODES  # perhaps of a stored content
            raise

    def _checked(self, candidate: Candidate) -> Preview:
        """All checks in one reading: they see the same state then, and cost a third."""
        with self._store.reading() as view:
            self._refuse_when_behind(view)
            if not reading.recoveries(view):
                return commit.preview(view, self._loaded, candidate)
        recoveries.sweep(self._writable)
        with self._store.reading() as view:
            return commit.preview(view, self._loaded, candidate)

    def _refuse_when_behind(self, view: Reading) -> None:
        record = view.get(keys.HEAD)
        if (record.modified if record else 0) != self._loaded.head_version:
            behind = revision_behind(head_of(self._loaded.applied), reading.head_of(view))
            raise Conflict(behind.message, remedy=behind.remedy, code=behind.code)

    def mend(self, blobs: Mapping[str, bytes]) -> int:
        """Costs what was sent, not what the ledger holds: only contents both sent and needed are looked at."""
        applied = self._loaded.applied
        asked = sorted(blobs.keys() & set(needed(applied))) if applied and blobs else []
        if applied is None or not asked:
            return 0
        good = {digest: blobs[digest] for digest in self._stored_wrong(asked)}
        for digest, content in good.items():
            if canonical.digest(content) != digest:
                raise Corrupt(
                    "that content has another digest", remedy="apply the fleet directory", code="blob_damaged"
                )
        if good:
            self._writable.commit(Transaction(expect={}, put={}, blobs=good))  # over what rotted there
        self._lost = {digest: stored for digest, stored in self._lost.items() if digest not in asked}
        table, manifests = applied.table, applied.header.manifests
        stays = [f for f in self._findings if lost_digest(f, table, manifests) not in asked]
        self._findings = tuple(
            f for f in stays if f.code != SECRET_LOST or self._stored_wrong(table.entries[f.address].needs)
        )
        return len(good)


def _still_true(found: Finding, before: Applied | None, after: Applied) -> bool:
    """A finding about a resource ends when it is applied again; one about a content ends when the content changes."""
    if not found.address or before is None:
        return True
    if found.code in (*CONTENT_CODES, *MANIFEST_CODES):
        old, new = (lost_digest(found, at.table, at.header.manifests) for at in (before, after))
        return old == new
    return before.table.entries.get(found.address) == after.table.entries.get(found.address)
