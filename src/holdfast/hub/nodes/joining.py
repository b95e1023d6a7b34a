"""Join nodes: consume the invite, record the enrolment, note the address. admission.py decides who may join."""

import logging

from holdfast.errors import HoldfastError
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger.writes import durable
from holdfast.hub.nodes import admission
from holdfast.hub.nodes import reports as node_reports
from holdfast.hub.nodes.liveness import Liveness
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.model.applied import head_of
from holdfast.model.audit import Event
from holdfast.model.checkin import JoinAnswer, JoinRequest
from holdfast.model.principal import Principal
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.ledger_store import LedgerStore, Moved

log = logging.getLogger("holdfast.fleet")


class Joining:
    """Belongs to the event loop. Audits what it refuses."""

    def __init__(
        self,
        *,
        fleet: WatchedFleet,
        registry: Registry,
        liveness: Liveness,
        store: LedgerStore,
        audit: AuditLog,
        refusals: Refusals,
        time: HubTime,
    ) -> None:
        self._fleet = fleet
        self._registry = registry
        self._liveness = liveness
        self._store = store
        self._audit = audit
        self._refusals = refusals
        self._time = time

    async def join(self, principal: Principal, request: JoinRequest, source: str) -> JoinAnswer:
        loop_s, now_s = self._fleet.attend(), self._time.now_s()
        self._fleet.applied()
        try:
            node_reports.check_address(request.address)
            admitted = admission.admit(self._registry, self._store, principal, request, now_s)
            if admitted.record is not None:
                await self._commit_invite(admitted)
                self._registry.enrolled(admitted.member.name, admitted.record)
        except HoldfastError as trouble:
            self._refusals.note(principal, "join", f"node.{request.name[:60]}", trouble, source)
            if (other := admission.successor(self._registry, self._store, principal, request)) is not None:
                return JoinAnswer(False, head_of(None), now_s, successor=other)
            raise
        member = admitted.member
        address = request.address or source
        what = "enrolled" if admitted.record is not None else "registered again"
        previous = f", previous address {member.address}" if member.address and member.address != address else ""
        if previous:
            log.warning("%s registers from %s%s", member.name, address, previous)
        member.address = address
        self._audit.append(
            Event(f"node:{member.name}", "join", f"node.{member.name}", "done", f"{what}{previous}", source)
        )
        self._liveness.heard(member, loop_s)
        return JoinAnswer(True, head_of(self._registry.applied), now_s, self._registry.cadence)

    async def _commit_invite(self, admitted: admission.Admission) -> None:
        try:
            await durable(self._store.submit(admission.writing(admitted)))
        except Moved as moved:
            raise admission.overtaken(admitted, moved) from None
