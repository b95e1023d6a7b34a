"""Take signed orders into the queue, take them back, and list the orders there are. Runs none."""

from holdfast.errors import HoldfastError, NotPermitted
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger.writes import durable
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.orders import queue as order_queue
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.model.audit import Event
from holdfast.model.order import SignedOrder
from holdfast.model.order_view import OrdersAnswer
from holdfast.model.principal import Principal
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.ledger_store import LedgerStore, Moved, Transaction


class Orders:
    """Belongs to the event loop, except `newest`. Audits what it refuses."""

    def __init__(
        self,
        *,
        fleet: WatchedFleet,
        registry: Registry,
        store: LedgerStore,
        audit: AuditLog,
        refusals: Refusals,
        time: HubTime,
    ) -> None:
        self._fleet = fleet
        self._registry = registry
        self._store = store
        self._audit = audit
        self._refusals = refusals
        self._time = time

    async def submit(self, principal: Principal, signed: SignedOrder, source: str = "") -> str:
        self._fleet.attend()
        applied, members = self._fleet.applied(), self._registry.members
        try:
            member, order, record = order_queue.accept(
                applied, members, signed, self._store, principal.name, self._time.now_s()
            )
            if record is not None:
                try:
                    await durable(self._store.submit(order_queue.writing(order, record)))
                except Moved:  # another request with the same order was faster
                    return order.id
                order_queue.put_in(member, order, record)
        except HoldfastError as trouble:
            self._refusals.note(principal, "order", "", trouble, source)
            raise
        text = f"{order.action} {order.target} on {order.node}"
        self._audit.append(Event(str(principal), "order", f"order.{order.id}", "done", text, source))
        return order.id

    async def cancel(self, principal: Principal, id: str, source: str = "") -> None:
        """Only drops it from the queue of this hub: a node that fetched it before, from whichever hub, has it."""
        self._fleet.attend()
        try:
            found = order_queue.cancel(self._fleet.applied(), self._registry.members, id, self._store, principal)
        except NotPermitted as trouble:
            self._refusals.note(principal, "cancel-order", f"order.{id}", trouble, source)
            raise
        if found is None:
            return
        member, waiting, put = found
        try:
            await durable(self._store.submit(Transaction(expect={}, put=put)))
        except BaseException:
            member.orders[id] = waiting
            raise
        self._audit.append(Event(str(principal), "cancel-order", f"order.{id}", "done", f"for {member.name}", source))

    def newest(self, node: str | None, newest: int) -> OrdersAnswer:
        return OrdersAnswer(tuple(order_queue.views(self._store, self._registry.members, node, newest)))
