"""Judge the health of a container from what was observed and probed. Pure: the caller gives monotonic times.

A container is observed and probed from outside; each observation and each answer makes the next watch from the last.
"""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model import duration
from holdfast.model.container import Container, Part
from holdfast.model.fleet import Health
from holdfast.reconcile.here import Word

BAD_MAX = 3  # in a row, after it was healthy

FAST_SETTLE_S = 1.0  # with `lab fast`, no container needs to live longer than this

RESTARTS_MAX = 5  # restarts by the runtime
RETURN_S = 1.0  # a restart by the runtime is awaited so long; after a boot, or without a supervisor, there is none

EAGER_S = 0.02  # first pause between probes of a starting container; grows to the declared interval


STEADY_PROBES = 10
STEP_S = 1.0  # healthy containers are probed together at whole steps: one wake-up costs less than many
EASE_S = 5.0  # probing fifty containers every second costs more than all other work of an idle agent


class Proof(Struct, frozen=True):
    """When a container is healthy: all checks answer. Without a check, when one process has lived for `settle_s`."""

    checks: tuple[Health, ...] = ()
    settle_s: float = 3.0


def proof(part: Part | None, start_s: float) -> Proof:
    """With `lab fast`, no container gets longer than `start_s` to start; 0: as declared."""
    if part is None:
        return Proof(settle_s=FAST_SETTLE_S if start_s else Proof().settle_s)
    settle_s = duration.milliseconds(part.settle) / 1000
    checks = tuple(_capped(check, start_s) for check in part.checks)
    return Proof(checks, min(settle_s, FAST_SETTLE_S) if start_s else settle_s)


def _capped(check: Health, start_s: float) -> Health:
    if not start_s or duration.milliseconds(check.start_period) <= start_s * 1000:
        return check
    return replace(check, start_period=f"{start_s:.0f}s")


class Watch(Struct, frozen=True):
    """One container as followed so far. `since_s` is when it began to start; crashes meanwhile do not change it."""

    container: str  # id
    since_s: float
    pid: int = 0
    started_s: float = 0.0  # of this process, in the runtime's clock, perhaps in whole seconds
    born_s: float = 0.0  # of this process, in the agent's clock
    down_s: float | None = None  # since when it has no process
    healthy: bool = False  # this process
    bad: int = 0  # in a row
    settled: bool = False  # this process was alive when its settle time was over
    probes: int = 0  # of this process
    stopped: bool = False  # by the agent, so the runtime does not restart it

    @property
    def life(self) -> tuple[int, float]:
        """Another value is another process."""
        return self.pid, self.started_s


def begin(container: Container, now_s: float, lived_s: float = 0.0) -> Watch:
    """For a container that the agent starts or finds: its whole start period begins now. `lived_s`: how long one that
    was found has run."""
    watch = looked(Watch(container.id, since_s=now_s), container, now_s)
    return replace(watch, born_s=now_s - lived_s) if container.running else watch


def stopped(watch: Watch) -> Watch:
    """For a container that the agent has stopped: do not wait for the runtime to restart it."""
    return replace(watch, stopped=True)


def looked(watch: Watch, container: Container, now_s: float) -> Watch:
    if not container.running:
        return watch if watch.down_s is not None else replace(watch, down_s=now_s)
    if watch.down_s is None and watch.life == (container.pid, container.started_s):
        return watch
    since_s = now_s if watch.healthy else watch.since_s
    return Watch(container.id, since_s, pid=container.pid, started_s=container.started_s, born_s=now_s)


def may_settle(watch: Watch, proof: Proof, now_s: float) -> bool:
    """Its settle time is over: if this process is alive now, it is healthy. An earlier look does not show that."""
    waits = not proof.checks and watch.down_s is None and not watch.settled
    return waits and now_s - watch.born_s >= proof.settle_s


def settled(watch: Watch) -> Watch:
    return replace(watch, settled=True)


def probed(watch: Watch, ok: bool) -> Watch:
    """One good answer is enough; bad ones count in a row."""
    if ok:
        return replace(watch, healthy=True, bad=0, probes=watch.probes + 1)
    return replace(watch, bad=watch.bad + 1, probes=watch.probes + 1)


def word(watch: Watch, container: Container, proof: Proof, now_s: float) -> Word:
    if container.phase == "created":
        return "starting"
    if not container.running:
        down_s = now_s - (watch.down_s if watch.down_s is not None else now_s)
        waits = down_s <= RETURN_S and (watch.healthy or _in_time(watch, proof, now_s))
        return "starting" if waits and returns(watch, container) else "failed"
    if container.phase == "paused":
        return "unhealthy"
    if watch.healthy:
        return "healthy" if watch.bad < BAD_MAX else "unhealthy"
    if not proof.checks:
        return "healthy" if watch.settled else "starting"
    return "starting" if _in_time(watch, proof, now_s) else "failed"


def returns(watch: Watch, container: Container) -> bool:
    """Whether the runtime may still restart it, however late: on a busy machine that takes seconds. A clean exit is
    final, and so is a stop by the agent."""
    if container.running or container.phase == "created":
        return False
    return not watch.stopped and container.exit_code != 0 and container.restarts < RESTARTS_MAX


def _in_time(watch: Watch, proof: Proof, now_s: float) -> bool:
    """Without a check there is no start period: the number of restarts by the runtime is the limit."""
    period_s = max((duration.milliseconds(check.start_period) / 1000 for check in proof.checks), default=None)
    return period_s is None or now_s - watch.since_s <= period_s


def pause_s(watch: Watch, health: Health) -> float:
    """The pause until the next probe: short while it starts, so that a deploy does not wait for a slow interval; longer
    for one that has been healthy for a while, until its first bad answer."""
    interval_s = float(duration.milliseconds(health.interval)) / 1000
    if not watch.healthy:
        return min(interval_s, EAGER_S * float(2 ** min(watch.probes, 16)))
    return max(interval_s, EASE_S) if watch.bad == 0 and watch.probes >= STEADY_PROBES else interval_s


def in_step(pause_s: float, health: Health, now_s: float) -> float:
    """The same pause, ended at a whole step of the clock: up to STEP_S shorter, never shorter than the interval."""
    if pause_s != EASE_S or duration.milliseconds(health.interval) / 1000 > EASE_S - STEP_S:
        return pause_s
    return pause_s - (now_s + pause_s) % STEP_S
