"""Containers that keep ending: counted, started with growing pauses, and reported as a finding."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise

import msgspec

from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError
from holdfast.model.container import Container
from holdfast.model.size import counted
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Facts

FREE = 3  # so often something that ends is started again at once by this agent
BACK_OFF_S_MAX = 60.0
CALM_S = 90.0
LATELY_S = 600.0
LOOP = 2  # ends within LATELY_S: it is restarting
LONGER = 1.5  # than it ran between two of its last ends: so long must a slow loop run before it is calm
TOLD = 3  # ends within LATELY_S: people are told
CRASHING = "crash_loop"
FACT = "services/crash-loops"

_ids = msgspec.json.Decoder(frozenset[str]).decode


class _Past:
    """Of one container. Times are those of the monotonic clock."""

    def __init__(self, restarts: int) -> None:
        self._by_runtime = restarts  # as last seen
        self.count = restarts
        self.ends: tuple[float, ...] = ()  # lately
        self.starts: tuple[float, ...] = ()  # of those, when this agent started it again

    def restarted(self, restarts: int, now_s: float) -> bool:
        """By the runtime, so often by now. Fewer than before: its count began again."""
        more, self._by_runtime = max(0, restarts - self._by_runtime), restarts
        self.count += more
        self.ends = _lately((*self.ends, *[now_s] * more), now_s)
        return more > 0

    def started(self, now_s: float) -> None:
        """By this agent, after it had ended; the runtime counts from 0 again."""
        self._by_runtime = 0
        self.count += 1
        self.ends, self.starts = _lately((*self.ends, now_s), now_s), _lately((*self.starts, now_s), now_s)

    def went_on(self, now_s: float) -> None:
        """It was a loop when the agent ended."""
        self.ends = (now_s,) * TOLD

    def calm_s(self) -> float:
        """When it is calm if it runs until then. One that ends every few minutes is not calm between two ends."""
        longest_s = max((after - before for before, after in pairwise(self.ends)), default=0.0)
        return self.ends[-1] + max(CALM_S, LONGER * longest_s)

    def run_on(self, now_s: float) -> None:
        """It runs: forget what is over."""
        if now_s - self.ends[-1] > CALM_S:
            self.starts = ()
        if len(self.ends) >= LOOP and now_s > self.calm_s():
            self.ends = ()


def _lately(times: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    return tuple(at_s for at_s in times if now_s - at_s < LATELY_S)[-10:]


class CrashLoops:
    """`changed` is called when more or fewer containers are restarting."""

    def __init__(self, clock: Clock, findings: Findings, facts: Facts, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._findings = findings
        self._facts = facts
        self._changed = changed
        self._past: dict[str, _Past] = {}  # by id
        self._restarting: set[str] = set()  # as shown
        self._looping = _ids(facts.fact(FACT) or b"[]")  # as the journal has it: a loop outlives its agent

    # ---- what happened

    def look(self, containers: Iterable[Container]) -> None:
        """All of ours, as the runtime lists them now."""
        ours = {one.id: one for one in containers}
        for id in self._past.keys() - ours.keys():
            del self._past[id]
        for one in ours.values():
            past = self._known(one)
            if past.restarted(one.restarts, self._clock.monotonic_s()):
                self._tell(one, past)
        self._settle(ours)

    def healed(self, container: Container) -> None:
        """This agent started it again after it had ended."""
        past = self._known(container)
        past.started(self._clock.monotonic_s())
        self._tell(container, past)

    def _known(self, container: Container) -> _Past:
        if container.id not in self._past:
            past = self._past[container.id] = _Past(container.restarts)
            if container.id in self._looping:
                past.went_on(self._clock.monotonic_s())
                self._tell(container, past)
        return self._past[container.id]

    def _tell(self, container: Container, past: _Past) -> None:
        self._changed()
        if len(past.ends) >= TOLD:
            self._findings.add(
                CRASHING,
                f"{container.component} {container.replica} of {container.service} keeps ending: "
                f"{counted(past.count, 'restart')}, last exit {container.last_end or 'unknown'}; the pause before each "
                "start grows",
                f"holdfast logs {container.service}",
                f"service.{container.service}",
            )

    def _settle(self, ours: dict[str, Container]) -> None:
        """A container that has run for a while is not crashing any more."""
        now_s, crashing, looping = self._clock.monotonic_s(), set(), set()
        for id, past in self._past.items():
            if past.ends and ours[id].running:
                past.run_on(now_s)
            if len(past.ends) >= TOLD:
                crashing.add(f"service.{ours[id].service}")
                looping.add(id)
        for found in self._findings.all():
            if found.code == CRASHING and found.address not in crashing:
                self._findings.clear(CRASHING, found.address)
        restarting = {id for id, past in self._past.items() if len(past.ends) >= LOOP}
        if restarting != self._restarting:
            self._restarting = restarting
            self._changed()
        if looping != self._looping:
            self._looping = frozenset(looping)
            with suppress(HoldfastError):  # a disk that cannot be written is told by what needs it
                self._facts.set_aside(FACT, msgspec.json.encode(sorted(looping)))

    def forgive(self, containers: Iterable[Container]) -> None:
        """An order named their service: they may be started at once."""
        for one in containers:
            self._past.pop(one.id, None)

    # ---- what follows from it

    def restarts(self, container: Container) -> int:
        """Since this agent knows it."""
        past = self._past.get(container.id)
        return max(past.count if past is not None else 0, container.restarts)

    def is_restarting(self, container: Container) -> bool:
        past = self._past.get(container.id)
        return past is not None and len(past.ends) >= LOOP

    def backing_off(self, containers: Iterable[Container]) -> set[str]:
        """Not to be started now: they ended too often lately."""
        now_s = self._clock.monotonic_s()
        return {one.id for one in containers if not one.running and now_s < self._ready_s(one.id)}

    def next_try_s(self, containers: Iterable[Container]) -> float | None:
        """Seconds until the first that waits may be started again."""
        now_s = self._clock.monotonic_s()
        waits = [self._ready_s(one.id) - now_s for one in containers if not one.running]
        return min((wait for wait in waits if wait > 0), default=None)

    def _ready_s(self, id: str) -> float:
        starts = self._past[id].starts if id in self._past else ()
        if len(starts) <= FREE:
            return 0.0
        return starts[-1] + min(2.0 ** (len(starts) - FREE), BACK_OFF_S_MAX)
