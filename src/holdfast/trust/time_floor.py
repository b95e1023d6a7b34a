"""A time that never goes back: an expired item stays expired, and a clock jump does not raise it. Pure.

The floor rises only with time that passed on this machine (monotonic), or to where the wall clock and the hub agree.
Neither the wall clock nor the hub moves it alone.
"""

from msgspec import Struct

from holdfast.errors import Corrupt

AGREE_S = 60.0
ALARM_S = 30.0
STEP_S_MAX = 600.0  # the agent advances every few seconds; a longer step is a clock jump and does not count


class TimeFloor(Struct, frozen=True):
    """`monotonic_s` is the reading when the floor was last raised; None after a start, as readings do not last."""

    floor_s: float = 0.0
    monotonic_s: float | None = None


def now_s(state: TimeFloor, wall_s: float) -> float:
    return max(wall_s, state.floor_s)


def advance(
    state: TimeFloor, wall_s: float, monotonic_s: float, hub_time_s: float | None = None
) -> tuple[TimeFloor, str | None]:
    """The next state, and what to report to the operator about the clock, if anything."""
    floor_s = state.floor_s
    # A floor that was never set stays unset, so that uptime alone is not taken for a date.
    if floor_s and state.monotonic_s is not None:
        passed_s = monotonic_s - state.monotonic_s
        floor_s += passed_s if 0.0 <= passed_s <= STEP_S_MAX else 0.0
    if hub_time_s is not None and abs(wall_s - hub_time_s) <= AGREE_S:
        floor_s = max(floor_s, min(wall_s, hub_time_s))
    return TimeFloor(floor_s, monotonic_s), _alarm(floor_s, wall_s, hub_time_s)


def _alarm(floor_s: float, wall_s: float, hub_time_s: float | None) -> str | None:
    if wall_s < floor_s - ALARM_S:
        return f"the clock of this node is {int(floor_s - wall_s)} s behind a time it has already seen"
    if hub_time_s is not None and abs(wall_s - hub_time_s) > ALARM_S:
        side = "ahead of" if wall_s > hub_time_s else "behind"
        return f"the clock of this node is {int(abs(wall_s - hub_time_s))} s {side} the hub's"
    return None


REMEDY = "run timedatectl set-ntp true on the machine whose clock is wrong"


def stored(state: TimeFloor) -> bytes:
    """Whole seconds, rounded down: a restart may lower the floor by less than one."""
    return b"%d" % int(state.floor_s)


def restored(content: bytes | None) -> TimeFloor:
    if content is None:
        return TimeFloor()
    if not content.isdigit() or len(content) > 12:
        raise Corrupt("the stored time floor of this node cannot be read", remedy="holdfast agent check")
    return TimeFloor(float(content))
