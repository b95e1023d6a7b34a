"""Drive one service to its target, step by step: the pure table decides (reconcile/rollout.py), performers act.

When a step of a new deployment fails, the failure is durable first; then the target is what served before.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.agent.services.records import Failure, Records
from holdfast.agent.services.rollout.attempts import Attempts
from holdfast.agent.services.rollout.containers import READER, Containers
from holdfast.agent.services.rollout.data_here import HereWithData
from holdfast.agent.services.rollout.here import HOOKS
from holdfast.agent.services.rollout.operations import Operations
from holdfast.agent.services.rollout.outcomes import Outcomes
from holdfast.agent.services.rollout.progress import Progress
from holdfast.errors import Failed, HoldfastError, SignatureRequired, TryLater
from holdfast.model.container import Guest, Part, name_of
from holdfast.model.journal import Outcome
from holdfast.reconcile import rollout, steps

STEPS_MAX = 1000  # no service needs so many; a table that goes in circles must not go on for ever

_QUIET = (steps.Certify, steps.Switch, steps.AwaitHealthy)

Perform = Callable[[Progress, Any], Awaitable[None]]
Performers = Mapping[type, Perform]  # by type of the step


class Rollouts:
    def __init__(
        self,
        *,
        performers: Performers,
        here: HereWithData,
        records: Records,
        operations: Operations,
        attempts: Attempts,
        containers: Containers,
        outcomes: Outcomes,
    ) -> None:
        self._performers = performers
        self._here = here
        self._records = records
        self._operations = operations
        self._attempts = attempts
        self._containers = containers
        self._outcomes = outcomes

    async def run(self, service: str, wanted: Guest | None, revision: int) -> None:
        """Until the service is at rest. Raises what keeps it from getting there; a deployment that failed and went
        back is at rest. `wanted` is None for a service that leaves this node."""
        progress = Progress(service, wanted, revision, self._records, self._attempts.begin())
        outcome: Outcome = "failed"
        self._here.doubt((wanted, progress.record.serving))
        try:
            await self._drive(progress)
            outcome = "done"
            if wanted is None:
                self._records.forget(service)
                self._outcomes.served(service)
        finally:
            self._close(progress, outcome)

    def forget_attempt(self, service: str) -> None:
        """Its failed step is not shown any more."""
        self._attempts.forget(service)

    async def _drive(self, progress: Progress) -> None:
        for _ in range(STEPS_MAX):
            here = await self._here.of(progress.service, progress.wanted, progress)
            step = rollout.next_step(progress.target, here)
            if step is None:
                return
            await self._take(progress, step)
        raise Failed(
            f"service.{progress.service} does not come to rest after {STEPS_MAX} steps",
            remedy="report this, with `holdfast agent journal` of the node",
            code="no_progress",
        )

    async def _take(self, progress: Progress, step: steps.Step) -> None:
        if isinstance(step, steps.Fail):
            message = f"{steps.label(step.container)}: {step.why}{await self._containers.last_words(step.container)}"
            self._fail(progress, step.name, "unhealthy", message, "fix the reported cause and deploy again")
            return
        perform = self._performers[type(step)]
        if isinstance(step, _QUIET) and progress.operation is None and not progress.is_attempt:
            await perform(progress, step)  # a renewed certificate, a proxy that lost a route: this is no deployment
            return
        self._begin(progress)
        progress.attempt.begin(step.name)
        try:
            await perform(progress, step)
        except HoldfastError as trouble:
            progress.attempt.failed(trouble.message)
            waits = isinstance(trouble, TryLater) and not isinstance(step, steps.Pull)
            if progress.is_attempt and not waits and not isinstance(trouble, SignatureRequired):
                remedy = _and_then(trouble.remedy, progress.service)
                self._fail(progress, step.name, trouble.code, trouble.message, remedy)
                return
            raise
        if not self._is_ill(step):
            progress.attempt.done()

    def _is_ill(self, step: steps.Step) -> bool:
        """A container that was waited for is ill: the table decides next whether that is a failure."""
        waited = step.containers if isinstance(step, steps.AwaitHealthy) else ()
        return any(self._containers.is_ill(one) for one in waited)

    def _fail(self, progress: Progress, step: str, code: str, message: str, remedy: str) -> None:
        """Durable before anything is undone: after a crash the way back goes on, not the attempt."""
        assert progress.wanted is not None
        attempt = progress.attempt
        if attempt.steps and attempt.steps[-1].outcome == "running":
            attempt.failed(message)
        failure = Failure(progress.wanted.deployment, step, code, message, remedy, round(attempt.now_s(), 3))
        self._containers.attempt_failed(progress.service)
        self._records.keep(progress.service, replace(progress.record, failure=failure))
        self._outcomes.failed(progress.service, failure, progress.record)
        progress.tried.clear()

    # ---- the journal

    def _begin(self, progress: Progress) -> None:
        """Once, before the first step."""
        if progress.operation is not None:
            return
        wanted = progress.wanted
        kind = "deploy" if wanted is not None else "retire"
        arguments = {"deployment": wanted.deployment} if wanted is not None else {}
        names = [name for guest in (wanted, progress.record.serving) if guest for name in _names(guest)]
        operation = self._operations.begin(kind, progress.service, arguments, names)
        self._containers.note(names)
        progress.begun(operation)
        self._attempts.show(progress.service, progress.attempt)

    def _close(self, progress: Progress, outcome: Outcome) -> None:
        if progress.operation is None:
            return
        wanted = progress.wanted
        failed = outcome == "failed" or (wanted is not None and progress.record.failed == wanted.deployment)
        self._operations.finish(progress.operation, progress.attempt, "failed" if failed else "done")


def hook_name(part: Part, when: str) -> str:
    return f"{name_of(part.spec, part.digest, 0)}-{when.partition('_')[0]}"


def _names(guest: Guest) -> list[str]:
    """Of containers, of hooks and of what reads an image for a new volume: what a crash leaves of any is removed like
    every unwanted container. Each has its own name: a hook must not start what was left of a reader."""
    hooks = [hook_name(part, when) for part in guest.parts for when in HOOKS]
    names = [name_of(one.spec, one.digest, replica) for one in guest.parts for replica in range(one.replicas)]
    return [*names, *hooks, *(f"{name_of(one.spec, one.digest, 0)}{READER}" for one in guest.parts if one.spec.mounts)]


def _and_then(remedy: str, service: str) -> str:
    """A failed deployment is not begun again automatically, nor by a deploy that finds nothing changed."""
    if "deploy again" in remedy:
        return remedy
    return f"{remedy}; then `holdfast restart {service}`, or `holdfast deploy {service}` if its file changed"
