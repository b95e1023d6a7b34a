"""What the command line asks of a hub, be it a daemon behind a URL or a ledger directory on this machine."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from holdfast.model.applied import Applied
from holdfast.model.hub_status import HubStatus
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import Candidate, Head
from holdfast.model.token import NewToken, Token

if TYPE_CHECKING:
    from holdfast.model.checkin import NodeNews, NodesAnswer  # much to load for commands that ask no nodes
    from holdfast.model.invite import SignedRevocation
    from holdfast.model.order import SignedOrder
    from holdfast.model.order_view import OrderView


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


class TokenDesk(Protocol):
    """Tokens that read, kept by a running hub. Only a daemon has them: a ledger directory has no visitors."""

    def create_token(self, name: str, expires_in_s: int) -> NewToken: ...

    def tokens(self) -> Sequence[Token]: ...

    def revoke_token(self, token_id: str) -> Token: ...


@runtime_checkable
class FleetReader(Protocol):
    """What a running hub knows of its nodes. A ledger directory has no visitors, so it knows none."""

    def nodes(self) -> "NodesAnswer": ...


@runtime_checkable
class FleetLookout(FleetReader, Protocol):
    """For whoever waits until a node says something: looks at few nodes, and sleeps at the hub in between."""

    def nodes_named(self, names: Sequence[str]) -> "NodesAnswer": ...

    def news(self, after: int, wait_s: float) -> "NodeNews | None":
        """Held until a node said something else. None: that hub cannot tell, so it has to be asked now and then."""
        ...


@runtime_checkable
class ConvergenceReader(Protocol):
    """A running hub notes which revisions came true; it is the hub's word alone."""

    def converged(self, newest: int, limit: int) -> Sequence[int]:
        """Numbers of those that did, from `newest` downwards, of `limit` revisions."""
        ...


@runtime_checkable
class FleetKeeper(FleetReader, Protocol):
    """Beyond looking: shut a node out, and read what was written down of everybody."""

    def revoke(self, revocation: "SignedRevocation") -> None:
        """Durable, and in force, when it returns."""
        ...

    def audit_lines(self, node: str = "", after: int = 0, limit: int = 1_000) -> Sequence[bytes]:
        """Lines after that number, oldest first: of the hub's own log, or of its copy of a node's."""
        ...

    def audit_entries(self, node: str = "") -> int:
        """The number of the newest line."""
        ...


@runtime_checkable
class OrderDesk(Protocol):
    """Where orders wait for their nodes. Only a running hub has one: a ledger directory delivers nothing."""

    def submit(self, order: "SignedOrder") -> str:
        """The order's id, once it is durable at the hub."""
        ...

    def orders(self, node: str = "", limit: int = 20) -> "Sequence[OrderView]":
        """Newest first; of every node, or of one."""
        ...
