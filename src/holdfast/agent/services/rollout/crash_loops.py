"""Containers that keep ending: started with growing pauses, and reported as a finding."""

from collections.abc import Iterable

from holdfast.agent.findings import Findings
from holdfast.model.container import Container
from holdfast.ports.clock import Clock

FREE = 3  # so often something that ends is started again at once
BACK_OFF_S_MAX = 60.0
CALM_S = 90.0
LATELY_S = 600.0
CRASHING = "crash_loop"


class CrashLoops:
    def __init__(self, clock: Clock, findings: Findings) -> None:
        self._clock = clock
        self._findings = findings
        self._starts: dict[str, list[float]] = {}  # id → when this agent started it again after it had ended

    def backing_off(self, containers: Iterable[Container]) -> set[str]:
        """Not to be started now: they ended too often lately."""
        now_s = self._clock.monotonic_s()
        return {one.id for one in containers if not one.running and now_s < self._ready_s(one.id)}

    def _ready_s(self, id: str) -> float:
        starts = self._starts.get(id, [])
        if len(starts) <= FREE:
            return 0.0
        return starts[-1] + min(2.0 ** (len(starts) - FREE), BACK_OFF_S_MAX)

    def healed(self, container: Container) -> None:
        """Started again after it had ended."""
        now_s = self._clock.monotonic_s()
        lately = [at_s for at_s in self._starts.get(container.id, []) if now_s - at_s < LATELY_S]
        self._starts[container.id] = lately = [*lately, now_s][-10:]
        if len(lately) > FREE:
            self._findings.add(
                CRASHING,
                f"{container.component} {container.replica} of {container.service} keeps ending "
                f"({len(lately)} times within ten minutes); the pause before each start grows",
                f"holdfast logs {container.service}",
                f"service.{container.service}",
            )

    def settle(self, containers: Iterable[Container]) -> None:
        """A container that has run for a while is not crashing any more. `containers` are all of ours."""
        now_s = self._clock.monotonic_s()
        ours = {one.id: one for one in containers}
        crashing = set()
        for id, starts in list(self._starts.items()):
            one = ours.get(id)
            if one is None or (one.running and now_s - starts[-1] > CALM_S):
                del self._starts[id]
            elif len(starts) > FREE:
                crashing.add(f"service.{one.service}")
        for found in self._findings.all():
            if found.code == CRASHING and found.address not in crashing:
                self._findings.clear(CRASHING, found.address)

    def forgive(self, containers: Iterable[Container]) -> None:
        """An order named their service: they may be started at once."""
        for one in containers:
            self._starts.pop(one.id, None)

    def next_try_s(self, containers: Iterable[Container]) -> float | None:
        """Seconds until the first that waits may be started again."""
        now_s = self._clock.monotonic_s()
        waits = [self._ready_s(one.id) - now_s for one in containers if not one.running]
        return min((wait for wait in waits if wait > 0), default=None)
