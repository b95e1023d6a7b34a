"""Store what a check-in brings: report, audit lines, order results. Answers nothing."""

import logging

from holdfast.hub.http.refusals import Refusals
from holdfast.hub.ledger.writes import durable, noted
from holdfast.hub.nodes import reports as node_reports
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import fingerprint
from holdfast.hub.orders import queue as order_queue
from holdfast.ledger import keys
from holdfast.model.audit import Event
from holdfast.model.checkin import CheckIn
from holdfast.model.size import counted
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.ledger_store import LedgerStore, Transaction

log = logging.getLogger("holdfast.fleet")


class Intake:
    """Belongs to the event loop."""

    def __init__(self, store: LedgerStore, audit: AuditLog, refusals: Refusals) -> None:
        self._store = store
        self._audit = audit
        self._refusals = refusals

    async def take(self, member: Member, message: CheckIn, fleet_id: str, source: str) -> bool:
        """True if the node's report, or the revision it accepted, has changed."""
        put: dict[str, bytes] = {}
        before = (member.seen, member.report_digest)
        previous = node_reports.moved_from(member, message)
        if previous is not None:
            self._note_move(member, message.address, previous, source)
        if message.pulse is not None:
            node_reports.take_pulse(member, message.pulse, fleet_id)
        changed = node_reports.take_report(member, message.report) if message.report else None
        if changed is None and previous is not None:
            changed = node_reports.kept(member)
        if changed is not None:
            put[keys.report(member.name)] = changed
        copied = node_reports.copy_audit(member, message.audit) if message.audit else None
        if copied is not None:
            await durable(self._store.submit(Transaction(expect={}, put=put | copied.put, delete=copied.delete)))
            member.audit.head, member.audit.key = copied.head, member.key or member.audit.key
        elif put:
            noted(self._store.submit(Transaction(expect={}, put=put)))
        return (member.seen, member.report_digest) != before

    def _note_move(self, member: Member, address: str, previous: str, source: str) -> None:
        member.address = address
        if previous:
            log.warning("%s is at %s now, previous address %s", member.name, address, previous)
            text = f"moved to {address}, previous address {previous}"
            self._audit.append(
                Event(f"node:{member.name}", "check-in", f"node.{member.name}", "done", text, source), durable=False
            )

    async def begin_log(self, member: Member, source: str) -> None:
        """Another machine has this name now: its log neither continues nor forges the previous one."""
        audit = member.audit
        before, head, trouble = audit.key, audit.head, audit.trouble
        aside = node_reports.put_aside(member, self._store)
        audit.key, audit.head, audit.trouble = member.key, None, ""  # for a check-in that comes meanwhile
        try:
            await durable(self._store.submit(aside))
        except BaseException:
            audit.key, audit.head, audit.trouble = before, head, trouble
            raise
        text = f"a new log begins; of {fingerprint(before)} are kept apart: {counted(len(aside.delete), 'line')}"
        self._audit.append(Event(f"node:{member.name}", "audit-copy", f"node.{member.name}", "done", text, source))

    async def take_results(self, member: Member, message: CheckIn, source: str) -> tuple[str, ...]:
        """Ids of the results that the node need not send again."""
        node_reports.check_results(message)
        taken = order_queue.take(member, message.results, self._store)
        if taken.put:
            await durable(self._store.submit(Transaction(expect={}, put=taken.put, delete=taken.delete)))
        order_queue.forget(member, taken.ids)
        who = f"node:{member.name}"
        for id, result in taken.finished:
            self._audit.append(
                Event(who, "order-result", f"order.{id}", result.outcome, result.message, source), durable=False
            )
        for result, why in taken.ignored:
            self._refusals.fold(
                Event(who, "order-result", f"order.{result.id[:64]}", "refused", f"ignored: {why}", source)
            )
        return taken.ids
