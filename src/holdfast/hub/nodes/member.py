"""What the hub keeps in memory of one node of the applied revision: who it is, what it said last, how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.hub.nodes.health import Condition
from holdfast.hub.nodes.long_poll import LongPoll
from holdfast.model.audit import AuditHead
from holdfast.model.report import Facts
from holdfast.model.revision import NO_HEAD, Head

if TYPE_CHECKING:
    from holdfast.hub.nodes.registry import EnrolmentRecord
    from holdfast.hub.orders.queue import Waiting
    from holdfast.model.invite import SignedRevocation
    from holdfast.model.report import Report, SignedPulse


Aside = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
NO_HINTS: Aside = ((), (), ())


class Member:
    """Plain and mutable, as it is touched by every check-in. Belongs to the event loop; others only look."""

    __slots__ = (
        "address",
        "audit_head",
        "audit_key",
        "audit_trouble",
        "bell",
        "condition",
        "entry_digest",
        "facts",
        "has_standby",
        "heard_before",
        "heard_s",
        "heartbeat_s",
        "hints_told",
        "key",
        "link",
        "name",
        "orders",
        "probe_until_s",
        "pulse",
        "pulse_at_s",
        "pulse_report",
        "record",
        "released",
        "report",
        "report_bytes",
        "report_digest",
        "revocation",
        "roles",
        "seen",
        "sequence",
        "skew_s",
        "standby",
        "told",
        "told_first_s",
        "told_s",
        "turn_s",
        "withdrawn",
        "without_standby",
    )

    def __init__(self, name: str, turn_s: float, condition: Condition) -> None:
        self.name = name
        self.roles: tuple[str, ...] = ()
        self.link = "poll"
        self.entry_digest = ""
        self.key = ""  # in force; "" while the node has not joined or is revoked
        self.revocation: SignedRevocation | None = None  # of the key that would be in force
        self.record: EnrolmentRecord | None = None
        self.address = ""
        self.bell = LongPoll()
        self.orders: dict[str, Waiting] = {}
        # health: times of the event loop
        self.condition = condition
        self.turn_s = turn_s  # since when it is the node's turn to speak
        self.probe_until_s = 0.0
        self.heard_s: float | None = None  # last word of any kind
        self.heard_before = False  # by this hub or one before it
        self.heartbeat_s: float | None = None
        # what it said
        self.pulse: SignedPulse | None = None
        self.pulse_at_s = 0.0
        self.pulse_report = ""  # digest the pulse names
        self.sequence = 0
        self.facts = Facts()  # claimed, clamped
        self.report: Report | None = None
        self.report_bytes = b""
        self.report_digest = ""
        self.seen = NO_HEAD
        self.skew_s = 0.0
        self.audit_head: AuditHead | None = None
        self.audit_key = ""  # whose log that is: another machine under this name begins another log
        self.audit_trouble = ""
        # what it was told, so that a node that does not follow is not told the same in a circle
        self.told: tuple[Head, Head] | None = None
        self.told_s = 0.0
        self.told_first_s = 0.0
        # services it runs for others (since when), may let go of, or leaves to nobody
        self.standby: dict[str, float] = {}
        self.released: tuple[str, ...] = ()
        self.withdrawn: tuple[str, ...] = ()  # internal names whose records it may drop
        self.hints_told = NO_HINTS
        self.has_standby = False  # somebody stands in for a service of it: each of its words counts
        self.without_standby: tuple[str, ...] = ()  # its services that nobody stands in for while it is silent

    @property
    def aside(self) -> Aside:
        """What it is told beside revisions and orders."""
        return tuple(self.standby), self.released, self.withdrawn

    @property
    def joined(self) -> bool:
        return self.key != ""
