"""Findings about backups: what failed, what is stale, what waits."""

from collections.abc import Sequence

from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError
from holdfast.model.duration import aged

FAILED, STALE, SKIPPED, NOT_PRUNED = "backup_failed", "backup_stale", "backup_skipped", "backup_not_pruned"
DAMAGED = "backup_damaged"
EVERY = (FAILED, STALE, SKIPPED, NOT_PRUNED, DAMAGED)


class Notes:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def failed(self, service: str, trouble: HoldfastError) -> None:
        text = f"the backup of {service} failed: {trouble.message}"
        self._findings.add(FAILED, text, trouble.remedy, address(service))

    def skipped(self, service: str, waited_s: float) -> None:
        """C-18: another operation held the service for too long."""
        text = f"the backup of {service} was skipped: a change of the service was under way for {aged(waited_s)}"
        self._findings.add(SKIPPED, text, f"holdfast backup {service}", address(service))

    def made(self, service: str) -> None:
        for code in (FAILED, SKIPPED):
            self._findings.clear(code, address(service))

    def stale(self, service: str, age_s: float | None) -> None:
        """None: it is not."""
        if age_s is None:
            self._findings.clear(STALE, address(service))
            return
        text = f"the last backup of {service} is {aged(age_s)} old" if age_s else f"{service} has no backup yet"
        self._findings.add(STALE, text, f"holdfast backup {service}", address(service))

    def not_pruned(self, service: str, trouble: HoldfastError | None) -> None:
        if trouble is None:
            self._findings.clear(NOT_PRUNED, address(service))
        else:
            text = f"old backups of {service} stay: {trouble.message}"
            self._findings.add(NOT_PRUNED, text, trouble.remedy, address(service))

    def read_back(self, service: str, id: str, flaws: Sequence[str]) -> None:
        """What is damaged or missing of the newest backup; nothing: it is right."""
        if not flaws:
            self._findings.clear(DAMAGED, address(service))
            return
        more = f" and {len(flaws) - 1} more" if len(flaws) > 1 else ""
        text = f"backup {id} of {service} is damaged where it is stored: {flaws[0]}{more}"
        self._findings.add(DAMAGED, text, f"holdfast backup {service} --wait", address(service))

    def forget(self, service: str) -> None:
        for code in EVERY:
            self._findings.clear(code, address(service))


def address(service: str) -> str:
    return f"service.{service}"
