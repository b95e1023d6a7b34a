"""What a hub shows of its nodes to people: the answers to `GET /v1/nodes` and its news. Values only."""

from msgspec import Struct

from holdfast.model.invite import Enrolment, SignedRevocation
from holdfast.model.report import SignedPulse
from holdfast.model.revision import Head

GENERATION = 1


class NodeView(Struct, frozen=True, omit_defaults=True):
    """What the hub knows of one node. `status` and `age_s` are the hub's; pulse, report and enrolment are signed."""

    name: str
    roles: tuple[str, ...]
    status: str  # healthy, unhealthy, unknown (M-47)
    address: str = ""
    age_s: float | None = None  # since the last heartbeat; None: none since this hub knows the node
    joined: bool = False
    revoked: bool = False
    key: str = ""  # public line in use
    pulse: SignedPulse | None = None
    report: bytes = b""
    enrolment: Enrolment | None = None
    revocation: SignedRevocation | None = None  # of the key this node had, for planning
    skew_s: float = 0.0  # the node's clock minus the hub's at the last check-in
    since_s: float = 0.0  # when its status became what it is


class NodeNews(Struct, frozen=True, omit_defaults=True):
    """Which nodes reported a change since; `at` is where to continue. `missed`: read all nodes again."""

    at: int
    nodes: tuple[str, ...] = ()
    missed: bool = False
    wire: int = GENERATION


class NodesAnswer(Struct, frozen=True):
    nodes: tuple[NodeView, ...]
    time_s: float
    ready: bool = True  # False while the hub warms up (M-75)
    wire: int = GENERATION
    chain: tuple[Head, ...] = ()  # the ledger's revisions of the numbers that these nodes signed as accepted
