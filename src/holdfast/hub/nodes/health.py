"""Health of a node: one table from what happened to what follows. Pure; stops and moves nothing (I-31).

Silence begins when the hub waits for the node: while the hub holds a request of the node, the node waits for the hub.
Any signed request of the node ends its silence, so a busy node never counts as dead (I-39).
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

# unknown: joined, no check-in since this hub started · suspect: silent for the whole window, being probed
Status = Literal["unknown", "healthy", "suspect", "unhealthy"]
Happening = Literal["heard", "window_over", "probe_over"]
Consequence = Literal["probe", "alarm", "recover"]

STATUSES: tuple[Status, ...] = ("unknown", "healthy", "suspect", "unhealthy")
HAPPENINGS: tuple[Happening, ...] = ("heard", "window_over", "probe_over")


class Step(Struct, frozen=True):
    status: Status
    follows: Consequence | None = None


TABLE: Mapping[tuple[Status, Happening], Step] = {
    ("unknown", "heard"): Step("healthy", "recover"),
    ("unknown", "window_over"): Step("suspect", "probe"),
    ("unknown", "probe_over"): Step("unknown"),  # an old timer: it checked in meanwhile, or its record was dropped
    ("healthy", "heard"): Step("healthy"),
    ("healthy", "window_over"): Step("suspect", "probe"),
    ("healthy", "probe_over"): Step("healthy"),
    ("suspect", "heard"): Step("healthy", "recover"),
    ("suspect", "window_over"): Step("suspect"),
    ("suspect", "probe_over"): Step("unhealthy", "alarm"),
    ("unhealthy", "heard"): Step("healthy", "recover"),  # M-57
    ("unhealthy", "window_over"): Step("unhealthy"),  # one alarm per silence (I-30)
    ("unhealthy", "probe_over"): Step("unhealthy"),
}


class HealthRecord(Struct, frozen=True):
    """What survives a restart of the hub: only changes are written (M-62). Times are wall clock."""

    status: Literal["healthy", "unhealthy"]
    since_s: float
    alerted: bool = False  # there is an alarm for this silence


class Condition(Struct, frozen=True):
    status: Status = "unknown"
    since_s: float = 0.0
    alerted: bool = False


def remembered(record: HealthRecord | None, now_s: float) -> Condition:
    """After a restart no node counts as healthy before its first check-in. A silence with an alarm goes on, without a
    second alarm."""
    if record is not None and record.status == "unhealthy" and record.alerted:
        return Condition("unhealthy", record.since_s, True)
    return Condition("unknown", record.since_s if record and record.status == "unhealthy" else now_s, False)


def after(before: Condition, happening: Happening, now_s: float, warm: bool) -> tuple[Condition, Consequence | None]:
    """`warm`: the warm-up is over, alarms may be raised (M-75)."""
    step = TABLE[before.status, happening]
    follows = step.follows
    if follows == "recover" and not before.alerted:
        follows = None  # there was no alarm, so there is no recovery
    if follows == "alarm" and not warm:
        follows = None
    if step.status == before.status:
        return before, follows
    alerted = follows == "alarm" or (before.alerted and step.status != "healthy")
    return Condition(step.status, now_s, alerted), follows


def record_of(condition: Condition) -> HealthRecord | None:
    """None for what is only known in memory."""
    if condition.status in ("healthy", "unhealthy"):
        return HealthRecord(condition.status, condition.since_s, condition.alerted)
    return None


def shown(condition: Condition, heard: bool) -> str:
    """One of the three states of M-47. A probe under way changes nothing yet."""
    if condition.status == "suspect":
        return "healthy" if heard else "unknown"
    return condition.status
