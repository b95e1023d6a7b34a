"""Is a node alive? One table from what happened to what follows. Pure; nothing here stops or moves anything (I-31).

Silence begins when it is the node's turn to speak: while the hub holds a node's question open, the node waits for the
hub. Any word signed by the node ends its silence, so a busy node is never a dead one (I-39).
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

# unknown: joined, not heard since this hub started · suspect: silent for the whole window, being probed
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
    ("unknown", "probe_over"): Step("unknown"),  # an old timer; it was heard or forgotten meanwhile
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
    alerted: bool = False  # somebody was told of this silence


class Condition(Struct, frozen=True):
    status: Status = "unknown"
    since_s: float = 0.0
    alerted: bool = False


def remembered(record: HealthRecord | None, now_s: float) -> Condition:
    """After a restart nobody is healthy by hearsay; a silence somebody was told of goes on, and is not told again."""
    if record is not None and record.status == "unhealthy" and record.alerted:
        return Condition("unhealthy", record.since_s, True)
    return Condition("unknown", record.since_s if record and record.status == "unhealthy" else now_s, False)


def after(before: Condition, happening: Happening, now_s: float, warm: bool) -> tuple[Condition, Consequence | None]:
    """`warm`: the warm-up is over, alarms may be raised (M-75)."""
    step = TABLE[before.status, happening]
    follows = step.follows
    if follows == "recover" and not before.alerted:
        follows = None  # nobody was told, so nobody is told that it is over
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
    """The three words of M-47. A probe under way changes nothing yet."""
    if condition.status == "suspect":
        return "healthy" if heard else "unknown"
    return condition.status
