"""What the command line needs from a hub: a daemon behind a URL, or a ledger directory on this machine."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from holdfast.model.applied import Applied
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import Candidate, Head

if TYPE_CHECKING:
    from holdfast.model.hub_status import HubStatus
    from holdfast.model.invite import SignedRevocation
    from holdfast.model.node_view import NodeNews, NodesAnswer  # expensive to import for commands that need no nodes
    from holdfast.model.order import SignedOrder
    from holdfast.model.order_view import OrderView
    from holdfast.model.token import NewToken, Token
    from holdfast.ports.backup_target import StoredObject


class HubReader(Protocol):
    def applied(self) -> Applied | None:
        """The head revision: consistent in itself, not yet compared with heads seen before."""
        ...

    def records(self, newest: int, limit: int) -> Sequence[RevisionRecord]:
        """Records from number `newest` downwards; 0 means from head."""
        ...

    def links(self, first: int, last: int) -> Sequence[Link]:
        """Revisions first…last in rising order, as a verifier needs them."""
        ...

    def blob(self, digest: str) -> bytes | None: ...

    def observations(self) -> Mapping[str, NodeObservation]: ...

    def suspects_damage(self) -> bool:
        """False: nothing is known to be damaged or missing, so that `damaged` need not be asked. Reads no content."""
        ...

    def damaged(self) -> Sequence[str]:
        """Digests that the applied table needs and the ledger does not have. Reads and hashes every content."""
        ...

    def status(self) -> "HubStatus": ...


@runtime_checkable
class PlanReader(HubReader, Protocol):
    """A hub that answers while the caller does other work."""

    def expect_plan(self) -> None:
        """`applied`, `observations` and `nodes` follow, in this order: ask for all of them now."""
        ...

    def expect_content(self, digest: str) -> None:
        """After `applied`: this content follows after the nodes. A wrong guess costs a connection, nothing else."""
        ...


class HubLink(HubReader, Protocol):
    def commit(self, candidate: Candidate) -> Head:
        """Durable when it returns."""
        ...

    def mend(self, blobs: Mapping[str, bytes]) -> int:
        """Store these contents again where they are damaged or missing; the digest proves the content."""
        ...


class TokenDesk(Protocol):
    """Read-only tokens, stored by a running hub. A ledger directory serves no requests, so it has none."""

    def create_token(self, name: str, expires_in_s: int) -> "NewToken": ...

    def tokens(self) -> "Sequence[Token]": ...

    def revoke_token(self, token_id: str) -> "Token": ...


@runtime_checkable
class FleetReader(Protocol):
    """What a running hub knows of its nodes. A ledger directory gets no check-ins, so it knows no nodes."""

    def nodes(self) -> "NodesAnswer": ...


@runtime_checkable
class FleetLookout(FleetReader, Protocol):
    """For a client that waits for reports: it reads few nodes, and the hub holds its request in between."""

    def nodes_named(self, names: Sequence[str]) -> "NodesAnswer": ...

    def news(self, after: int, wait_s: float) -> "NodeNews | None":
        """Held until a node reports a change. None: this hub does not support it, so the client has to poll."""
        ...


@runtime_checkable
class ConvergenceReader(Protocol):
    """A running hub records which revisions converged. The record is the hub's own and is not signed."""

    def converged(self, newest: int, limit: int) -> Sequence[int]:
        """Numbers of the revisions that converged, from `newest` downwards, among `limit` revisions."""
        ...


@runtime_checkable
class FleetKeeper(FleetReader, Protocol):
    """Administration: revoke a node's key, and read the audit logs of the hub and the nodes."""

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
class BackupReader(Protocol):
    """The objects of backups that a running hub stores, by key (model/backup_key.py). They are sealed."""

    def backup_objects(self, prefix: str) -> "Sequence[StoredObject]":
        """All whose keys begin so, sorted by key."""
        ...

    def backup_object(self, key: str) -> bytes | None:
        """None: not there. The caller compares the digest."""
        ...


@runtime_checkable
class OrderDesk(Protocol):
    """The queue of orders. Only a running hub has one: a ledger directory delivers nothing."""

    def submit(self, order: "SignedOrder") -> str:
        """The order's id, once it is durable at the hub."""
        ...

    def orders(self, node: str = "", limit: int = 20) -> "Sequence[OrderView]":
        """Newest first; of every node, or of one."""
        ...


@runtime_checkable
class OrderKeeper(OrderDesk, Protocol):
    def cancel_order(self, order: str) -> None:
        """Take back an order that its node has not fetched: this hub does not deliver it any more. Durable when it
        returns. Raises Conflict if the node has it, or if it is over."""
        ...
