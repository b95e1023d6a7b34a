"""The messages of a check-in (V-37): report up, head and orders down. Values only; both ends ignore unknown fields."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.hub_generation import SignedGeneration
from holdfast.model.invite import Enrolment
from holdfast.model.node_view import GENERATION
from holdfast.model.order import Delivered, OrderResult
from holdfast.model.record import Link
from holdfast.model.report import SignedPulse
from holdfast.model.revision import NO_HEAD, Head

HOLD_S_MAX = 60.0
LINKS_MAX = 100  # in one answer; an agent further behind asks again
RESULTS_MAX = 64
ORDERS_MAX = 64
REPORT_BYTES_MAX = 640 * 1024  # 2,000 public routes; in Base64 within the body that a hub takes

Seconds = Annotated[float, Meta(ge=0.0, le=86_400.0)]


class CheckIn(Struct, frozen=True, omit_defaults=True):
    """`heartbeat`: the pulse is due (30 s). A poll in between or a wake-up has none and is not counted."""

    node: str  # an assertion: the name comes from the key that signed the request (M-54)
    seen: Head = NO_HEAD  # newest revision accepted
    heartbeat: bool = False
    pulse: SignedPulse | None = None  # with a heartbeat, and at once when a revision was accepted or the report changed
    report: bytes = b""  # JSON of a Report, only if the hub lacks the one whose digest the pulse names
    results: tuple[OrderResult, ...] = ()
    wait_s: Seconds = 0.0  # how long the hub may hold this request when it has nothing to send
    clock_s: float = 0.0  # the node's wall clock, for the skew alarm
    roles: tuple[str, ...] = ()  # an assertion that must match the revision (C-36)
    address: str = ""  # the node's address as it knows it; M-23 logs a change
    audit: tuple[bytes, ...] = ()  # newest audit lines the hub has not seen yet
    hub: str = ""  # digest of the generation of the hub that this node follows
    newer_hub: SignedGeneration | None = None  # that generation, to a hub that showed a lower one
    wire: int = GENERATION


class CheckInAnswer(Struct, frozen=True, omit_defaults=True):
    head: Head
    time_s: float
    links: tuple[Link, ...] = ()  # after `seen`, in order, at most LINKS_MAX
    manifest: bytes = b""  # of this node at `head`; only if `head` is not what it has seen
    orders: tuple[Delivered, ...] = ()
    results_taken: tuple[str, ...] = ()  # ids of results the hub has durably; the agent may stop sending them
    report_wanted: bool = False
    salvage_wanted: bool = False  # the hub lost revisions: send what this node holds (POST /v1/salvage)
    registered: bool = True  # False: the hub does not know this node (any more); join again (D-04)
    cadence: Cadence = NORMAL
    audit_seen: int = 0  # number of the newest audit entry the hub holds
    # Services of silent nodes to run here meanwhile: only those the signed manifest lists as standby. None: nothing
    # changes (the hub warms up, or is an old one).
    standby: tuple[str, ...] | None = None
    released: tuple[str, ...] = ()  # services that moved away and are proven on their new node
    # Internal names that a signed revision removed and that no edge routes to any more: their records may go at once.
    withdrawn: tuple[str, ...] = ()
    # The pulse of this node with the highest order counter, in answer to one of another life or with a lower counter:
    # the node learns from its own signature that its state was put back.
    own_pulse: SignedPulse | None = None
    hub: str = ""  # digest of this hub's generation; "": it was never restored
    restored_hub: SignedGeneration | None = None  # that generation, if the node follows another one
    wire: int = GENERATION


class JoinRequest(Struct, frozen=True, omit_defaults=True):
    """The node's new key signs the request; the enrolment proves which node it is."""

    enrolment: Enrolment
    name: str
    roles: tuple[str, ...] = ()
    address: str = ""
    arch: str = ""
    wire: int = GENERATION


class JoinAnswer(Struct, frozen=True, omit_defaults=True):
    accepted: bool
    head: Head
    time_s: float
    cadence: Cadence = NORMAL
    successor: Enrolment | None = None  # to a machine whose place another one took: the proof of that
    wire: int = GENERATION
