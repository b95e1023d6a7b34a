"""What the command line asks of a hub, be it a daemon behind a URL or a ledger directory on this machine."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.model.applied import Applied
from holdfast.model.hub_status import HubStatus
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import Candidate, Head


class HubReader(Protocol):
    def applied(self) -> Applied | None:
        """The head revision, internally consistent but not yet verified against anybody's memory."""
        ...

    def records(self, newest: int, limit: int) -> Sequence[RevisionRecord]:
        """Records from number `newest` downwards; 0 means from head."""
        ...

    def links(self, first: int, last: int) -> Sequence[Link]:
        """Revisions first…last in rising order, as a verifier needs them."""
        ...

    def blob(self, digest: str) -> bytes | None: ...

    def observations(self) -> Mapping[str, NodeObservation]: ...

    def damaged(self) -> Sequence[str]:
        """Digests that the applied table needs and the ledger cannot give."""
        ...

    def status(self) -> HubStatus: ...


class HubLink(HubReader, Protocol):
    def commit(self, candidate: Candidate) -> Head:
        """Durable when it returns."""
        ...

    def mend(self, blobs: Mapping[str, bytes]) -> int:
        """Store these contents anew where they are damaged or missing; a digest proves its content."""
        ...
