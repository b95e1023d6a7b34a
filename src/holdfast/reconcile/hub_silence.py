"""When a node tells people that it does not hear its hub, and that it hears it again (X17). Pure.

An episode begins with the last good answer. It is one alarm, and one recovery after the hub was heard for a third of
the limit without a gap of that length: a hub that comes and goes is one trouble.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.cadence import Cadence

Message = Literal["alarm", "recovery"]

CODES: Mapping[Message, str] = {"alarm": "hub_silent", "recovery": "hub_heard"}
BEATS = 4  # heartbeats of silence are ordinary: a busy node sends nothing else
START_S = 60.0  # an agent that has just started asks its hub for so long before it says what it missed


class Episode(Struct, frozen=True):
    """Monotonic times. `back_s`: the first good answer after an alarm, without a gap since; `told`: an alarm is
    open."""

    heard_s: float
    back_s: float | None = None
    told: bool = False


def limit_s(after_s: float, cadence: Cadence) -> float:
    """The declared time, but never so short that an ordinary pause is an alarm. A hub asks for 60 s at most."""
    return max(after_s, BEATS * max(cadence.poll_s, cadence.heartbeat_s))


def begun(now_s: float, wall_s: float, heard_wall_s: float | None, told: bool, limit_s: float) -> Episode:
    """At a start. `heard_wall_s`: when the hub was last heard, by the wall clock, as stored; None if never. A clock
    that was set back makes the silence begin now; one that was set forward makes it due START_S after the start."""
    passed_s = 0.0 if heard_wall_s is None else max(wall_s - heard_wall_s, 0.0)
    return Episode(now_s - min(passed_s, limit_s - min(START_S, limit_s)), None, told)


def heard(episode: Episode, now_s: float, limit_s: float) -> Episode:
    """A good answer: the hub knows this node, and shows the revision that the node accepted."""
    if not episode.told:
        return Episode(now_s)
    has_gap = episode.back_s is None or now_s - episode.heard_s >= _settled_s(limit_s)
    return Episode(now_s, now_s if has_gap else episode.back_s, told=True)


def due(episode: Episode, now_s: float, limit_s: float) -> tuple[Message | None, float | None]:
    """What is to be sent now, else when to look again; neither: not before the next good answer."""
    if not episode.told:
        at_s = episode.heard_s + limit_s
        return ("alarm", None) if now_s >= at_s else (None, at_s)
    settled_s = _settled_s(limit_s)
    heard_for_s = 0.0 if episode.back_s is None else episode.heard_s - episode.back_s
    return "recovery" if heard_for_s >= settled_s > now_s - episode.heard_s else None, None


def sent(episode: Episode, message: Message) -> Episode:
    return replace(episode, told=message == "alarm", back_s=None)


def _settled_s(limit_s: float) -> float:
    return limit_s / 3
