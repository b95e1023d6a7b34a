"""How often nodes report: one set of intervals, stretched with the size of the fleet. Pure."""

from msgspec import Struct
from msgspec.structs import replace


class Cadence(Struct, frozen=True):
    """Seconds. After `window_s` of silence a node is suspect (M-55), `probe_s` later it is unhealthy. No container gets
    more than `start_s` to become healthy, whatever it declares; 0: as it declares."""

    poll_s: float = 10.0  # T-04: a long-poll is held at most so long
    heartbeat_s: float = 30.0  # M-53
    window_s: float = 90.0
    probe_s: float = 5.0
    start_s: float = 0.0


NORMAL = Cadence()
FAST = Cadence(1.0, 1.0, 3.0, 1.0, 8.0)  # `holdfast lab fast`

NODES_AT_FULL_PACE = 1000
PACE_S_MAX = 60.0  # an agent accepts no slower pace from a hub, for polls and for heartbeats (W3, X16)
START_S_MIN = 5.0  # a smaller value from a hub would make every rollout fail


def stretched(base: Cadence, nodes: int) -> Cadence:
    factor = max(1.0, nodes / NODES_AT_FULL_PACE)
    return replace(
        base, poll_s=base.poll_s * factor, heartbeat_s=base.heartbeat_s * factor, window_s=base.window_s * factor
    )


def bounded(said: Cadence) -> Cadence:
    """The pace an agent uses when a hub asks for one: never slower than the bounds, never more than once a second."""

    def within(value: float) -> float:
        return min(max(value, 1.0), PACE_S_MAX)

    start_s = max(said.start_s, START_S_MIN) if said.start_s else 0.0
    return Cadence(within(said.poll_s), within(said.heartbeat_s), said.window_s, said.probe_s, start_s)
