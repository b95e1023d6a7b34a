"""Findings about rollouts: a deployment that failed, a hook that failed. Cleared when the service serves."""

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.services.records import Failure, Record
from holdfast.errors import HoldfastError

FAILED = "rollout_failed"
HOOK_FAILED = "hook_failed"


class Outcomes:
    def __init__(self, findings: Findings, say: Say) -> None:
        self._findings = findings
        self._say = say

    def failed(self, service: str, failure: Failure, record: Record) -> None:
        serving = record.serving.deployment if record.serving is not None else ""
        still = "the previous version keeps serving" if serving else "nothing serves"
        self._findings.add(
            FAILED,
            f"service.{service}: step {failure.step!r} failed: {failure.message}; {still}",
            failure.remedy,
            f"service.{service}",
        )
        self._say(FAILED, {"service": service, "step": failure.step, "message": failure.message})

    def hook_failed(self, service: str, trouble: HoldfastError) -> None:
        self._findings.add_trouble(HOOK_FAILED, trouble, f"service.{service}")

    def served(self, service: str) -> None:
        """The service serves, is gone, or has another deployment now: an older failure does not matter any more."""
        for code in (FAILED, HOOK_FAILED):
            self._findings.clear(code, f"service.{service}")
