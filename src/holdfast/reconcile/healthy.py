"""Is it healthy? A verdict over what was seen and probed so far, and when. Pure: times come from outside, monotonic.

A container is looked at and probed from outside; each look and each answer makes the next watch from the last.
"""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.model import duration
from holdfast.model.container import Container
from holdfast.model.fleet import Health
from holdfast.reconcile.here import Word

BAD_MAX = 3  # in a row, after it was healthy

# Without a health check a container is taken for healthy once it has lived this long. The runtime brings back what
# crashed after 0.15 s, so one that dies at once (a missing program, a wrong architecture) has no life as long as this.
STEADY_S = 0.3

RESTARTS_MAX = 5  # tries of the runtime itself
RETURN_S = 1.0  # by then the runtime has brought back what it will; after a boot, or with no supervisor, it does not

EAGER_S = 0.02  # first pause between probes of one that starts; grows to the declared interval


STEADY_PROBES = 10
STEP_S = 1.0  # healthy containers are probed together at whole steps: one wake-up costs less than many
EASE_S = 5.0  # fifty containers asked every second cost more than everything else an agent does at rest


class Watch(Struct, frozen=True):
    """One container as followed so far. `since_s` is when it began to start; crashes on the way do not renew it."""

    container: str  # id
    since_s: float
    started_s: float = 0.0  # of this life, in the runtime's clock: another value is another life
    born_s: float = 0.0  # of this life, in ours
    down_s: float | None = None  # since when it has no process
    healthy: bool = False  # in this life
    bad: int = 0  # in a row
    probes: int = 0  # in this life
    stopped: bool = False  # by us, so nobody brings it back


def begin(container: Container, now_s: float) -> Watch:
    """Whenever the agent starts a container, and for those it finds: each has its whole start period before it."""
    return looked(Watch(container.id, since_s=now_s), container, now_s)


def stopped(watch: Watch) -> Watch:
    """Whenever the agent has stopped a container: nobody waits for the runtime to bring it back."""
    return replace(watch, stopped=True)


def looked(watch: Watch, container: Container, now_s: float) -> Watch:
    if not container.running:
        return watch if watch.down_s is not None else replace(watch, down_s=now_s)
    if watch.down_s is None and watch.started_s == container.started_s:
        return watch
    since_s = now_s if watch.healthy else watch.since_s
    return Watch(container.id, since_s, started_s=container.started_s, born_s=now_s)


def probed(watch: Watch, ok: bool) -> Watch:
    """One good answer is enough; a bad one counts for the row it stands in."""
    if ok:
        return replace(watch, healthy=True, bad=0, probes=watch.probes + 1)
    return replace(watch, bad=watch.bad + 1, probes=watch.probes + 1)


def word(watch: Watch, container: Container, health: Health | UnsetType, now_s: float) -> Word:
    if container.phase == "created":
        return "starting"
    if not container.running:
        return "starting" if _comes_back(watch, container, health, now_s) else "failed"
    if watch.healthy:
        return "healthy" if watch.bad < BAD_MAX else "unhealthy"
    if health is UNSET:
        return "healthy" if now_s - watch.born_s >= STEADY_S else "starting"
    return "starting" if _in_time(watch, health, now_s) else "failed"


def _comes_back(watch: Watch, container: Container, health: Health | UnsetType, now_s: float) -> bool:
    """A clean end is an end, and so is ours; a crash is the runtime's to heal, a few times, at once."""
    if watch.stopped or container.exit_code == 0 or container.restarts >= RESTARTS_MAX:
        return False
    down_s = now_s - (watch.down_s if watch.down_s is not None else now_s)
    return down_s <= RETURN_S and (watch.healthy or _in_time(watch, health, now_s))


def _in_time(watch: Watch, health: Health | UnsetType, now_s: float) -> bool:
    """Without a check there is no period to be late in: the runtime's own tries are the bound."""
    return health is UNSET or now_s - watch.since_s <= duration.milliseconds(health.start_period) / 1000


def capped(health: Health | UnsetType, start_s: float) -> Health | UnsetType:
    """In a hurry (`lab fast`), nobody gets longer than this to start; 0: everybody as declared."""
    if health is UNSET or not start_s or duration.milliseconds(health.start_period) <= start_s * 1000:
        return health
    return replace(health, start_period=f"{start_s:.0f}s")


def pause_s(watch: Watch, health: Health) -> float:
    """Until the next probe: eager while it starts, so that a deploy does not wait for a slow interval; at ease with one
    that has been well for a while, until its first bad answer."""
    interval_s = float(duration.milliseconds(health.interval)) / 1000
    if not watch.healthy:
        return min(interval_s, EAGER_S * float(2 ** min(watch.probes, 16)))
    return max(interval_s, EASE_S) if watch.bad == 0 and watch.probes >= STEADY_PROBES else interval_s


def in_step(pause_s: float, health: Health, now_s: float) -> float:
    """The same pause, ended at a whole step of the clock: up to STEP_S shorter, never shorter than the interval."""
    if pause_s != EASE_S or duration.milliseconds(health.interval) / 1000 > EASE_S - STEP_S:
        return pause_s
    return pause_s - (now_s + pause_s) % STEP_S
