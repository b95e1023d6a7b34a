"""Revoke node keys: verify the operators' statement, record it, end the node's held request."""

import msgspec

from holdfast.errors import HoldfastError, NotPermitted
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.ledger.writes import durable
from holdfast.hub.nodes.registry import Registry, fingerprint
from holdfast.hub.orders import queue as order_queue
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.ledger import keys
from holdfast.model.audit import Event
from holdfast.model.invite import SignedRevocation
from holdfast.model.principal import Principal
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.trust import enrolment as chain


class Revocations:
    """Belongs to the event loop. Audits what it refuses."""

    def __init__(
        self, *, fleet: WatchedFleet, registry: Registry, store: LedgerStore, audit: AuditLog, refusals: Refusals
    ) -> None:
        self._fleet = fleet
        self._registry = registry
        self._store = store
        self._audit = audit
        self._refusals = refusals

    async def revoke(self, principal: Principal, signed: SignedRevocation, source: str = "") -> None:
        self._fleet.attend()
        applied = self._fleet.applied()
        try:
            if applied is None:
                raise NotPermitted("this hub has no revision yet", remedy="holdfast apply", code="nothing_applied")
            revocation = chain.verify_revocation(signed, applied.fleet_id, applied.trust)
            key = keys.revocation(fingerprint(revocation.key))
            await durable(self._store.submit(Transaction(expect={}, put={key: msgspec.json.encode(signed)})))
        except HoldfastError as trouble:
            self._refusals.note(principal, "revoke", "", trouble, source)
            raise
        hit = self._registry.shut_out(revocation.key, signed)
        if hit is not None:
            order_queue.withdraw(hit, "ping")
            hit.bell.ring()
        self._audit.append(
            Event(str(principal), "revoke", f"node.{revocation.node}", "done", fingerprint(revocation.key), source)
        )
