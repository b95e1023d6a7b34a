"""Episodes of trouble: since when a service is unhealthy, and when that becomes an alarm or a recovery. Pure.

An episode begins with the first bad sign and ends when there was none for the time limit of an alarm: a container that
crashes every few seconds is one trouble, and a single crash that healed at once is none.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.deployment import ServiceState
from holdfast.model.report import Report
from holdfast.status.services import serving

Consequence = Literal["alarm", "recover"]
_BAD = ("unhealthy", "stopped")


class TroubleSign(Struct, frozen=True):
    """What one report shows: `bad` is why it is unhealthy, or "". `started` by container, to see restarts."""

    bad: str
    started: dict[str, float]


class Episode(Struct, frozen=True):
    """Times of the event loop. `bad_s`: unhealthy since; `well_s`: no bad sign since; `told`: an alarm is open."""

    bad_s: float | None = None
    well_s: float | None = None
    why: str = ""
    told: bool = False
    started: dict[str, float] = {}


def sign_of(state: ServiceState, report: Report) -> TroubleSign | None:
    """None while there is nothing to judge: a rollout is under way, it is held, or its runtime does not answer. What
    serves already and is settling again is being healed, which may go on for long in vain."""
    if state.phase == "held" or (state.phase == "settling" and state.serving != state.applied):
        return None
    mine = serving.containers(state, report)
    if any(one.status == "unknown" and not one.state for one in mine):
        return None
    others = [one for one in mine if one.state != "restarting"]  # a crash loop is an alarm of its own
    started = {one.id: one.started_s for one in others if one.id}
    worst = next((one for status in _BAD for one in others if one.status == status), None)
    if worst is not None:
        return TroubleSign(f"{worst.component} is {worst.status}", started)
    if not mine and state.phase == "failed":
        return None  # nothing serves, and there is an alarm for that already
    return TroubleSign("" if mine else "it has no container", started)


def after(before: Episode, sign: TroubleSign | None, now_s: float) -> Episode:
    if sign is None:  # whatever is tried now, it ends only when it is seen to be healthy
        return replace(before, well_s=None) if before.told else Episode()
    episode = replace(before, started=sign.started)
    if sign.bad:
        return replace(episode, bad_s=_first(before.bad_s, now_s), well_s=None, why=sign.bad)
    if _restarted(before.started, sign.started):
        return replace(episode, bad_s=_first(before.bad_s, now_s), well_s=now_s, why="a container restarts")
    if before.bad_s is None and not before.told:
        return episode
    return replace(episode, well_s=_first(before.well_s, now_s))


def due(episode: Episode, now_s: float, limit_s: float) -> tuple[Episode, Consequence | None, float | None]:
    """What follows now, and when to look again (None: not before the next report)."""
    if episode.well_s is not None and now_s - episode.well_s >= limit_s:
        over = Episode(started=episode.started)
        return over, "recover" if episode.told else None, None
    if episode.told or episode.bad_s is None:
        return episode, None, None if episode.well_s is None else episode.well_s + limit_s
    until_s = now_s if episode.well_s is None else episode.well_s
    if until_s - episode.bad_s >= limit_s:
        return replace(episode, told=True), "alarm", None if episode.well_s is None else episode.well_s + limit_s
    return episode, None, (episode.bad_s if episode.well_s is None else episode.well_s) + limit_s


def _first(known_s: float | None, now_s: float) -> float:
    return now_s if known_s is None else known_s


def _restarted(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    return any(id in before and started_s > before[id] for id, started_s in now.items())
