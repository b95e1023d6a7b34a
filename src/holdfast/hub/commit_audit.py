"""Write each commit into the audit log. The ledger has who signed; the log also has that this hub took it (I-38)."""

import logging

from holdfast.errors import HoldfastError
from holdfast.model.applied import Applied, head_of
from holdfast.model.audit import Event
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.hub_link import HubReader

log = logging.getLogger("holdfast.fleet")

COMMITS_AUDITED = 100  # at once; there are more only after a ledger was copied from another hub


class CommitAudit:
    def __init__(self, hub: HubReader, audit: AuditLog) -> None:
        self._hub = hub
        self._audit = audit

    def committed(self, before: Applied | None, after: Applied) -> None:
        first, last = head_of(before).number, after.head.number
        try:
            taken = self._hub.records(last, min(last - first, COMMITS_AUDITED))
        except HoldfastError as trouble:  # status shows the damaged record; no request is refused because of it
            log.warning("commits since %d are not in the audit log: %s", first, trouble.message)
            return
        for record in reversed(taken):
            names = ",".join(signer.operator for signer in record.approval.signers)
            target = f"revision.{record.number}"
            self._audit.append(Event(f"operator:{names}", "commit", target, "done", record.digest), durable=False)
