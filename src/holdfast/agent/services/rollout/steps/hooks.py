"""The step that runs a hook: a command in a container of the component's image, never on the host."""

from msgspec.structs import replace

from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.driver import Performers, hook_name
from holdfast.agent.services.rollout.outcomes import Outcomes
from holdfast.agent.services.rollout.progress import Progress
from holdfast.errors import Failed
from holdfast.reconcile import steps

HOOK_S_MAX = 240.0  # less than [timeouts] deploy gives: the operator reads that it was the hook


class HookSteps:
    def __init__(self, containers: Containers, records: Records, outcomes: Outcomes) -> None:
        self._containers = containers
        self._records = records
        self._outcomes = outcomes
        self.performers: Performers = {steps.Hook: self._hook}

    async def _hook(self, progress: Progress, step: steps.Hook) -> None:
        """A pre_deploy hook has no volumes: the deployment that serves still uses them."""
        part = step.part
        command = part.pre_deploy if step.when == "pre_deploy" else part.post_deploy
        mounts = () if step.when == "pre_deploy" else part.spec.mounts
        spec = replace(part.spec, command=command, mounts=mounts, ports=())
        deployment = progress.target.deployment if progress.target is not None else ""
        finished = await self._containers.run_once(hook_name(part, step.when), spec, deployment, HOOK_S_MAX)
        if finished.code == 0 or step.when == "post_deploy":  # run once only: what serves is not taken back for it
            note = f"{step.when} {part.spec.component}"
            self._records.keep(progress.service, replace(progress.record, hooks=(*progress.record.hooks, note)))
        if finished.code != 0:
            self._failed(progress, step, finished.code, finished.output)

    def _failed(self, progress: Progress, step: steps.Hook, code: int, output: str) -> None:
        said = f": {_one_line(output)}" if output.strip() else ""
        trouble = Failed(
            f"the {step.when} hook of {step.part.spec.component} ended with {code}{said}",
            remedy=f"fix hooks.{step.when} in services/{progress.service}.toml and deploy again",
            code="hook_failed",
        )
        if step.when == "pre_deploy":
            raise trouble
        self._outcomes.hook_failed(progress.service, trouble)
        progress.attempt.failed(trouble.message)


def _one_line(output: str) -> str:
    return " ⏎ ".join(line for line in output.splitlines() if line.strip())[-500:]
