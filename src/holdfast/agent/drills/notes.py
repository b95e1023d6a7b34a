"""Findings about drills: what a drill found wrong, what is not proven, what is left of one."""

from collections.abc import Collection

from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError
from holdfast.model.drill import DrillResult
from holdfast.model.duration import aged

FAILED, UNCLEAR, NOT_PROVEN, LEFT = "drill_failed", "drill_inconclusive", "backup_not_proven", "drill_left"


class Notes:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def ended(self, service: str, result: DrillResult) -> None:
        """A drill that was not conclusive does not end the finding of one that failed."""
        if result.verdict == "failed":
            text = f"backup {result.id} of {service} is not good: {result.reason}"
            self._findings.add(FAILED, text, result.remedy, address(service))
        elif result.verdict == "verified":
            self._findings.clear(FAILED, address(service))
        if result.verdict == "inconclusive":
            text = f"a drill of {service} had no result: {result.reason}"
            self._findings.add(UNCLEAR, text, result.remedy, address(service))
        else:
            self._findings.clear(UNCLEAR, address(service))

    def overdue(self, service: str, age_s: float | None) -> None:
        """`age_s` of the last proof, 0 if there is none; None: it is proven often enough."""
        if age_s is None:
            self._findings.clear(NOT_PROVEN, address(service))
            return
        text = f"no backup of {service} was proven for {aged(age_s)}" if age_s else f"no backup of {service} is proven"
        self._findings.add(NOT_PROVEN, text, f"holdfast drill {service}", address(service))

    def left(self, service: str, trouble: HoldfastError | None) -> None:
        if trouble is None:
            self._findings.clear(LEFT, address(service))
        else:
            text = f"what a drill of {service} made cannot be removed yet: {trouble.message}"
            self._findings.add(LEFT, text, trouble.remedy, address(service))

    def unknown(self, names: Collection[str], node: str) -> None:
        """Labelled as of a drill, and not in this agent's journal: it was lost, or another program made them."""
        if not names:
            self._findings.clear(LEFT, f"node.{node}")
            return
        text = f"this agent's journal does not have these containers of drills: {', '.join(sorted(names))}"
        remedy = f"on {node}, look at them, then remove them: podman rm --force {' '.join(sorted(names))}"
        self._findings.add(LEFT, text, remedy, f"node.{node}")

    def forget(self, service: str) -> None:
        for code in (FAILED, UNCLEAR, NOT_PROVEN):
            self._findings.clear(code, address(service))


def address(service: str) -> str:
    return f"service.{service}"
