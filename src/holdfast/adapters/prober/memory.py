"""A prober with scripted answers, for tests and simulation."""

import asyncio
from collections import deque

from holdfast.model.container import Container
from holdfast.model.duration import milliseconds
from holdfast.model.fleet import Health
from holdfast.ports.allowed import Allowed, check
from holdfast.ports.prober import Snapshotted, Verdict
from holdfast.ports.runtime import RUNS

NOTHING = Verdict(False, "nothing listens there")


class MemoryProber:
    """`answers` by container name or image, used in order; the last one repeats. Without answers, a running container
    is healthy. `slow_s` is the delay of an answer; beyond the timeout the probe fails."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Verdict]] = {}
        self.slow_s: dict[str, float] = {}
        self.snapshots: dict[str, Snapshotted] = {}  # answers by image
        self.asked: deque[str] = deque(maxlen=10_000)

    def script(self, whom: str, *answers: Verdict) -> None:
        self.answers[whom] = list(answers)

    async def probe(self, container: Container, health: Health, allowed: Allowed | None = None) -> Verdict:
        if health.type == "exec":
            assert allowed is not None
            check(allowed, RUNS, container.id)
        self.asked.append(container.name)
        timeout_s, slow_s = milliseconds(health.timeout) / 1000, self.slow_s.get(container.name, 0.0)
        if not container.running:
            return NOTHING
        await asyncio.sleep(min(slow_s, timeout_s))
        if slow_s > timeout_s:
            return Verdict(False, f"no answer within {health.timeout}")
        answers = self.answers.get(container.name) or self.answers.get(container.image) or [Verdict(True)]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def snapshot(self, container: Container, port: int, timeout_s: float, allowed: Allowed) -> Snapshotted:
        check(allowed, RUNS, container.id)
        self.asked.append(container.name)
        return self.snapshots.get(container.image, Snapshotted(False, NOTHING.why))
