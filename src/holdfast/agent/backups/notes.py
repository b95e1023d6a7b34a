"""Findings about backups: what failed, what is stale, what waits."""

from collections.abc import Sequence

from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError
from holdfast.model.backup_key import subject
from holdfast.model.duration import aged

FAILED, STALE, SKIPPED, NOT_PRUNED = "backup_failed", "backup_stale", "backup_skipped", "backup_not_pruned"
DAMAGED = "backup_damaged"
NOT_COPIED, GONE = "backup_not_copied", "target_gone"
EVERY = (FAILED, STALE, SKIPPED, NOT_PRUNED, DAMAGED, NOT_COPIED)


class Notes:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._damaged: dict[tuple[str, str], str] = {}  # service, target → what was read there

    def failed(self, service: str, trouble: HoldfastError) -> None:
        text = f"the backup of {service} failed: {trouble.message}"
        self._findings.add(FAILED, text, trouble.remedy, subject(service))

    def skipped(self, service: str, waited_s: float) -> None:
        """C-18: another operation held the service for too long."""
        text = f"the backup of {service} was skipped: a change of the service was under way for {aged(waited_s)}"
        self._findings.add(SKIPPED, text, f"holdfast backup {service}", subject(service))

    def made(self, service: str) -> None:
        for code in (FAILED, SKIPPED):
            self._findings.clear(code, subject(service))

    def stale(self, service: str, age_s: float | None) -> None:
        """None: it is not."""
        if age_s is None:
            self._findings.clear(STALE, subject(service))
            return
        text = f"the last backup of {service} is {aged(age_s)} old" if age_s else f"{service} has no backup yet"
        self._findings.add(STALE, text, f"holdfast backup {service}", subject(service))

    def not_pruned(self, service: str, trouble: HoldfastError | None) -> None:
        if trouble is None:
            self._findings.clear(NOT_PRUNED, subject(service))
        else:
            text = f"old backups of {service} stay: {trouble.message}"
            self._findings.add(NOT_PRUNED, text, trouble.remedy, subject(service))

    def read_back(self, service: str, digest: str, target: str, flaws: Sequence[str]) -> None:
        """What is damaged or missing of the newest backup on a target; nothing: it is right."""
        self._damaged.pop((service, target), None)
        if flaws:
            more = f" and {len(flaws) - 1} more" if len(flaws) > 1 else ""
            self._damaged[service, target] = (
                f"backup {digest[:16]} of {service} is damaged where it is stored ({target}): {flaws[0]}{more}"
            )
        texts = [text for (of, _), text in sorted(self._damaged.items()) if of == service]
        if texts:
            self._findings.add(DAMAGED, "; ".join(texts), f"holdfast backup {service} --wait", subject(service))
        else:
            self._findings.clear(DAMAGED, subject(service))

    def not_copied(self, service: str, trouble: HoldfastError | None) -> None:
        if trouble is None:
            self._findings.clear(NOT_COPIED, subject(service))
        else:
            text = f"a target lacks backups of {service}: {trouble.message}"
            self._findings.add(NOT_COPIED, text, trouble.remedy, subject(service))

    def target(self, name: str, why: str, remedy: str) -> None:
        """Why a storage target cannot be used; "": it can."""
        if why:
            text = f"the storage target {name} is not usable: {why}; it gets what it lacks when it is back"
            self._findings.add(GONE, text, remedy, f"storage.{name}")
        else:
            self._findings.clear(GONE, f"storage.{name}")

    def forget(self, service: str) -> None:
        for code in EVERY:
            self._findings.clear(code, subject(service))
