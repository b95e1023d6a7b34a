"""How often nodes speak: one set of figures, stretched with the size of the fleet. Pure."""

from msgspec import Struct


class Cadence(Struct, frozen=True):
    """Seconds. `window_s` of silence make a node suspect (M-55), `probe_s` later it is unhealthy."""

    poll_s: float = 10.0  # T-04: a long-poll is held at most so long
    heartbeat_s: float = 30.0  # M-53
    window_s: float = 90.0
    probe_s: float = 5.0


NORMAL = Cadence()
FAST = Cadence(1.0, 1.0, 3.0, 1.0)  # `holdfast lab fast`

NODES_AT_FULL_PACE = 1000
POLL_S_MAX = 300.0  # an agent takes no slower pace from a hub, whatever it says (W3)
HEARTBEAT_S_MAX = 300.0


def stretched(base: Cadence, nodes: int) -> Cadence:
    factor = max(1.0, nodes / NODES_AT_FULL_PACE)
    return Cadence(base.poll_s * factor, base.heartbeat_s * factor, base.window_s * factor, base.probe_s)


def bounded(said: Cadence) -> Cadence:
    """What an agent makes of a hub's wish: never slower than the bounds, never busier than once a second."""

    def within(value: float, most: float) -> float:
        return min(max(value, 1.0), most)

    return Cadence(
        within(said.poll_s, POLL_S_MAX), within(said.heartbeat_s, HEARTBEAT_S_MAX), said.window_s, said.probe_s
    )
