"""Rollouts in the journal: begun before the first step, finished with every step and its result."""

from collections.abc import Collection

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.lanes import Lanes
from holdfast.agent.services.rollout.attempts import Attempt
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError
from holdfast.gate.containers import MADE
from holdfast.model.audit import Event
from holdfast.model.journal import Operation, Outcome
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.journal import Journal
from holdfast.ports.random_source import RandomSource


class Operations:
    def __init__(
        self,
        *,
        journal: Journal,
        audit: AuditLog,
        random: RandomSource,
        time: NodeTime,
        lanes: Lanes,
        findings: Findings,
        say: Say,
    ) -> None:
        self._journal = journal
        self._audit = audit
        self._random = random
        self._time = time
        self._lanes = lanes
        self._findings = findings
        self._say = say

    def begin(self, kind: str, service: str, arguments: dict[str, str], names: Collection[str]) -> Operation:
        """`names` of containers are in the journal before there is a container of that name (W10)."""
        operation = Operation(self._random.token(16).hex(), kind, service, self._time.now_s(), arguments)
        self._journal.begin(operation, None, [MADE + name for name in sorted(set(names))])
        self._lanes.operations.add(operation.id)
        return operation

    def finish(self, operation: Operation, attempt: Attempt, outcome: Outcome) -> None:
        """A disk that fails now changes nothing that was done: the next start finds the operation unfinished."""
        self._lanes.operations.discard(operation.id)
        try:
            self._journal.steps(operation.id, attempt.records())
            self._journal.finish(operation.id, outcome)
            last = attempt.steps[-1].name if attempt.steps else ""
            self._audit.append(Event("agent", operation.kind, f"service.{operation.lane}", outcome, last, operation.id))
        except (HoldfastError, OSError) as trouble:
            message = getattr(trouble, "message", str(trouble))
            self._findings.add("state_unwritable", message, "check the disk of this node")
        self._say("service", {"service": operation.lane, "kind": operation.kind, "outcome": outcome})
