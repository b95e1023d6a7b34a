"""Findings, audit lines and log events about revisions: accepted, parked, refused or waiting."""

from collections.abc import Sequence

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.link.audit_folding import AuditFolding
from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.model.audit import Event
from holdfast.model.report import Parked
from holdfast.model.revision import Head
from holdfast.ports.audit_log import AuditLog

KEPT = 1000
REFUSED, WAITS, UNWRITABLE = "revision_refused", "revision_waits", "state_unwritable"
ABSENT = "not_in_revision"


class AcceptanceLog:
    def __init__(
        self, *, audit: AuditLog, folding: AuditFolding, findings: Findings, say: Say, fleet: str, node: str
    ) -> None:
        self._audit = audit
        self._folding = folding
        self._findings = findings
        self._say = say
        self._fleet = fleet
        self._node = node
        self._told: set[tuple[str, str]] = set()  # refusals that are in the audit log already

    def followed(self) -> None:
        self.agreed()
        self._findings.clear(UNWRITABLE)

    def agreed(self) -> None:
        for code in (REFUSED, WAITS):
            self._findings.clear(code)

    def named(self, head: Head, named: bool) -> None:
        if named:
            self._findings.clear(ABSENT)
            return
        self._findings.add(
            ABSENT,
            f"revision {head.number} does not name this node any more; nothing here is changed or removed",
            f"put [[nodes]] {self._node} back and apply, or wipe this machine when you are done with it",
        )

    def accepted(self, head: Head, parked: Sequence[Parked]) -> None:
        source, principal = f"revision {head.number}", f"fleet:{self._fleet[:12]}"
        self._audit.append(Event(principal, "accept", source, detail=head.digest))
        for one in parked:
            self._audit.append(Event(principal, "accept", one.address, "parked", one.reason, source))
        self._say("accepted", {"revision": head.number, "parked": [one.address for one in parked]})

    def waits(self, trouble: HoldfastError) -> None:
        """It is tried again: the hub withholds a content, or this machine cannot write."""
        if isinstance(trouble, Failed):
            self._findings.add_trouble(UNWRITABLE, trouble)
        elif isinstance(trouble, TryLater) and trouble.code == "content_missing":
            self._findings.add_trouble(WAITS, trouble)

    def refuse(self, head: Head, trouble: HoldfastError) -> None:
        """The same refusal is written down once."""
        message = f"revision {head.number} is refused: {trouble.message}"
        self._findings.add(REFUSED, message, trouble.remedy)
        told = (head.digest, trouble.code)
        if told in self._told:
            return
        if len(self._told) < KEPT:
            self._told.add(told)
        event = Event("hub", "accept", f"revision {head.number}", "refused", trouble.message, head.digest)
        if self._folding.note(event):
            fields: dict[str, object] = {"revision": head.number, "code": trouble.code, "message": trouble.message}
            self._say(REFUSED, fields)
