"""One node of the applied revision as the hub keeps it in memory: identity, liveness, last report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.hub.nodes.health import Condition
from holdfast.hub.nodes.long_poll import LongPoll
from holdfast.model.audit import AuditHead
from holdfast.model.report import Facts, Pulse, SignedPulse
from holdfast.model.revision import Head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.hub.nodes.registry import EnrolmentRecord
    from holdfast.hub.orders.queue import Waiting
    from holdfast.model.invite import SignedRevocation
    from holdfast.model.report import Report

NO_PULSE = Pulse("", "", 0, 0.0)


class AuditCopy:
    """The hub's copy of a node's audit log. `key` is the node key that the log belongs to: another machine under the
    same name begins another log."""

    __slots__ = ("head", "key", "trouble")

    def __init__(self) -> None:
        self.head: AuditHead | None = None
        self.key = ""
        self.trouble = ""

    @property
    def number(self) -> int:
        return self.head.number if self.head is not None else 0


class Foremost(Struct, frozen=True):
    """The pulse of a node with the highest order counter, and the newest of those; an earlier life may have sent it."""

    signed: SignedPulse
    life: str
    counter: int
    key: str


class Answered:
    """What the last answers to a node contained, so that a node that does not follow is not sent the same in a loop.

    `heads`: the head it had and the head it was sent, None while it follows. Times are of the event loop.
    """

    __slots__ = ("first_s", "heads", "hints", "last_s")

    def __init__(self) -> None:
        self.heads: tuple[Head, Head] | None = None
        self.first_s = 0.0
        self.last_s = 0.0
        self.hints: Mapping[str, tuple[str, ...]] = {}


class Member:
    """Plain and mutable, as every check-in changes it. Belongs to the event loop; other threads only read."""

    __slots__ = (
        "address",
        "answered",
        "audit",
        "bell",
        "clock_refused_s",
        "condition",
        "entry_digest",
        "foremost",
        "heard_before",
        "heard_s",
        "heartbeat_s",
        "key",
        "link",
        "name",
        "newest",
        "orders",
        "probe_until_s",
        "pulse",
        "record",
        "report",
        "report_bytes",
        "report_digest",
        "revocation",
        "roles",
        "skew_s",
        "to_return",
        "turn_s",
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
        self.answered = Answered()
        self.audit = AuditCopy()
        # liveness: times of the event loop
        self.condition = condition
        self.turn_s = turn_s  # since when the hub waits for the node to check in
        self.probe_until_s = 0.0
        self.heard_s: float | None = None  # last check-in or answer to a probe
        self.heard_before = False  # by this hub or an earlier hub process
        self.heartbeat_s: float | None = None
        self.clock_refused_s: float | None = None  # last request that was refused because its clock is off
        # last report
        self.pulse: SignedPulse | None = None
        self.newest = NO_PULSE  # the content of `pulse`; its facts are claims of the node, clamped
        self.foremost: Foremost | None = None
        self.to_return: SignedPulse | None = None  # a pulse of its own that the next answer has
        self.report: Report | None = None
        self.report_bytes = b""
        self.report_digest = ""
        self.skew_s = 0.0

    @property
    def joined(self) -> bool:
        return self.key != ""

    @property
    def is_refused_for_clock(self) -> bool:
        """It calls, and every call since the last good one was refused because its clock is off."""
        refused_s = self.clock_refused_s
        return refused_s is not None and (self.heard_s is None or refused_s > self.heard_s)

    @property
    def seen(self) -> Head:
        """The revision it accepted last."""
        return self.newest.accepted

    @property
    def facts(self) -> Facts:
        return self.newest.facts

    @property
    def pulse_report(self) -> str:
        """Digest of the report that its newest pulse names."""
        return self.newest.report
