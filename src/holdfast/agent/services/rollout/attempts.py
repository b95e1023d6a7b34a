"""The steps of a rollout while it runs, for reports; the journal keeps them for good."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from holdfast.model.deployment import StepResult
from holdfast.model.journal import StepRecord

STEPS_MAX = 64  # in a report
SAY_S = 2.0  # between reports of how far a step is: each costs a signed pulse


class Attempt:
    """One run of one service towards its target."""

    def __init__(self, now_s: Callable[[], float], changed: Callable[[], None]) -> None:
        self.now_s = now_s
        self._changed = changed
        self.steps: list[StepResult] = []
        self._due: asyncio.TimerHandle | None = None  # a report of how far the step is

    @property
    def step(self) -> str:
        return self.steps[-1].name if self.steps and self.steps[-1].outcome != "done" else ""

    def begin(self, name: str) -> None:
        if self.steps and self.steps[-1].name == name and self.steps[-1].outcome == "running":
            return  # still waiting for the same
        self.steps.append(StepResult(name, "running", round(self.now_s(), 3)))
        self._changed()

    def say(self, message: str) -> None:
        """How far the step under way has come: reported 2 s later, so that a short step costs no report."""
        if self.steps and self.steps[-1].outcome == "running":
            self.steps[-1] = replace(self.steps[-1], message=message[:200])
            self._due = self._due or asyncio.get_running_loop().call_later(SAY_S, self._tell)

    def _tell(self) -> None:
        self._due = None
        self._changed()

    def done(self) -> None:
        self._end("done", "")

    def failed(self, message: str) -> None:
        self._end("failed", message)

    def _end(self, outcome: str, message: str) -> None:
        step = self.steps[-1]
        if step.outcome != "running":
            return
        took_s = round(max(self.now_s() - step.at_s, 0.0), 3)
        ended = StepResult(step.name, "failed" if outcome == "failed" else "done", step.at_s, took_s, message[:2000])
        self.steps[-1] = ended
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._changed()

    def told(self) -> tuple[StepResult, ...]:
        return tuple(self.steps[-STEPS_MAX:])

    def records(self) -> list[StepRecord]:
        return [
            StepRecord(one.name, one.at_s, f"{one.outcome} {one.took_s:.3f} s {one.message}".rstrip())
            for one in self.steps
        ]


class Attempts:
    """The newest attempt of each service of this node."""

    def __init__(self, now_s: Callable[[], float], changed: Callable[[], None]) -> None:
        self.now_s = now_s
        self._changed = changed
        self.newest: dict[str, Attempt] = {}

    def begin(self) -> Attempt:
        """It is not shown yet: a look at a service that is at rest begins nothing."""
        return Attempt(self.now_s, self._changed)

    def show(self, service: str, attempt: Attempt) -> None:
        self.newest[service] = attempt
        self._changed()

    def forget(self, service: str) -> None:
        self.newest.pop(service, None)
