"""The order queue of each node (C-01): stored until fetched, delivered under a lease, results stored. Runs none."""

from collections.abc import Iterable, Sequence, Set

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict, Invalid, Limited
from holdfast.hub.nodes.member import Member
from holdfast.ledger import keys
from holdfast.model.applied import Applied
from holdfast.model.checkin import ORDERS_MAX
from holdfast.model.order import (
    OLD_FORMAT,
    Delivered,
    HubOrder,
    Order,
    OrderResult,
    SignedOrder,
    decode_order,
)
from holdfast.model.order_view import SIGN_AGAIN, OrderRecord, OrderState, OrderView
from holdfast.model.principal import Principal
from holdfast.model.stream import ACTIONS as STREAMS
from holdfast.ports.ledger_store import LedgerStore, Reading, Transaction
from holdfast.trust import order_cancelling
from holdfast.trust import orders as signed_orders

LEASE_S = 60.0
UNHEARD_S = 5.0  # a node that is idle so long after a delivery, without a result, never received it
QUEUE_MAX = 256  # per node, waiting
KEPT_MAX = 256  # per node, finished


class Waiting:
    """An order without a result. The lease is in memory: after a restart everything is delivered once more."""

    __slots__ = ("attempt", "expires_s", "hub", "leased_until_s", "record")

    def __init__(self, record: OrderRecord | None, hub: HubOrder | None, expires_s: float) -> None:
        self.record = record
        self.hub = hub
        self.expires_s = expires_s  # wall clock
        self.attempt = 0
        self.leased_until_s = -1.0  # the event loop's clock


class Taken(Struct, frozen=True):
    """A batch of results: ids to acknowledge, what to write, and what goes into the audit log."""

    ids: tuple[str, ...]
    put: dict[str, bytes]
    delete: tuple[str, ...]
    finished: tuple[tuple[str, OrderResult], ...]  # of signed orders
    ignored: tuple[tuple[OrderResult, str], ...]


def load(member: Member, store: Reading) -> None:
    for record in store.scan(keys.orders_of(member.name)):
        found = msgspec.json.decode(record.value, type=OrderRecord)
        if found.result is None and not found.expired:
            order = decode_order(found.signed.order)
            member.orders[order.id] = Waiting(found, None, order.expires_s)


def accept(
    applied: Applied | None, members: dict[str, Member], signed: SignedOrder, store: Reading, by: str, now_s: float
) -> tuple[Member, Order, OrderRecord | None]:
    """Check it early: the node verifies it again, against its own trust. No record: the order is here already."""
    order = decode_order(signed.order)
    member = members.get(order.node)
    if applied is None or member is None:
        raise Invalid(
            f"there is no node {order.node[:60]!r} in the applied revision",
            remedy="`holdfast node list` shows every node; sign the order for one of them",
            code="unknown_node",
        )
    signed_orders.verify(signed, applied.fleet_id, order.node, applied.trust, now_s)
    stored = store.get(keys.order(order.node, order.id))
    if stored is not None:
        if msgspec.json.decode(stored.value, type=OrderRecord).signed.order != signed.order:
            raise Conflict(
                f"another order has the id {order.id}",
                remedy="sign the order again: holdfast order sign --help",
                code="order_exists",
            )
        return member, order, None
    if sum(1 for waiting in member.orders.values() if waiting.record is not None) >= QUEUE_MAX:
        raise Limited(
            f"{QUEUE_MAX} orders wait for {order.node} already",
            remedy=f"holdfast order list --node {order.node}; they go when it checks in or when they expire",
            retry_after_s=60.0,
        )
    return member, order, OrderRecord(signed, by, now_s)


def writing(order: Order, record: OrderRecord) -> Transaction:
    key = keys.order(order.node, order.id)
    return Transaction(expect={key: 0}, put={key: msgspec.json.encode(record)})


def put_in(member: Member, order: Order, record: OrderRecord) -> None:
    member.orders[order.id] = Waiting(record, None, order.expires_s)
    member.bell.ring()


def is_ordered(member: Member, target: str, actions: Set[str]) -> bool:
    """Whether such an order is on its way to the node, or is carried out there. From any thread."""
    for waiting in list(member.orders.values()):
        if waiting.record is not None:
            order = decode_order(waiting.record.signed.order)
            if order.target == target and order.action in actions:
                return True
    return False


def ask(member: Member, action: str, id: str, expires_s: float) -> None:
    """Queue an order of the hub's own closed list, in memory only. One of each action at a time."""
    if any(waiting.hub is not None and waiting.hub.action == action for waiting in member.orders.values()):
        return
    hub = HubOrder(id, member.name, action, f"node.{member.name}")
    member.orders[id] = Waiting(None, hub, expires_s)
    member.bell.ring()


def withdraw(member: Member, action: str) -> None:
    for id, waiting in list(member.orders.items()):
        if waiting.hub is not None and waiting.hub.action == action:
            del member.orders[id]


def is_due(member: Member, loop_s: float) -> bool:
    return any(waiting.leased_until_s <= loop_s for waiting in member.orders.values())


def unheard(member: Member, loop_s: float) -> None:
    """The node is idle: deliver again what went into a broken connection. The node runs it at most once."""
    for waiting in member.orders.values():
        if waiting.leased_until_s > loop_s >= waiting.leased_until_s - LEASE_S + UNHEARD_S:
            waiting.leased_until_s = loop_s


def deliver(member: Member, loop_s: float, now_s: float) -> tuple[Delivered, ...]:
    """Everything without a result whose lease ran out, oldest first, each under a new attempt number."""
    found: list[Delivered] = []
    for waiting in member.orders.values():
        if len(found) == ORDERS_MAX:
            break
        if waiting.leased_until_s > loop_s or waiting.expires_s <= now_s:
            continue
        waiting.attempt += 1
        waiting.leased_until_s = loop_s + LEASE_S
        signed = waiting.record.signed if waiting.record is not None else None
        found.append(Delivered(waiting.attempt, signed, waiting.hub))
    return tuple(found)


def take(member: Member, results: Iterable[OrderResult], store: Reading) -> Taken:
    """Late results of an older attempt are ignored, and not acknowledged: the newer attempt brings the same result.

    Results of unknown orders are acknowledged, so that a node does not send them for ever.
    """
    ids: list[str] = []
    put: dict[str, bytes] = {}
    finished: list[tuple[str, OrderResult]] = []
    ignored: list[tuple[OrderResult, str]] = []
    for result in results:
        waiting = member.orders.get(result.id)
        if waiting is not None and result.attempt < waiting.attempt:
            ignored.append((result, f"of attempt {result.attempt}, by now attempt {waiting.attempt} counts"))
            continue
        ids.append(result.id)
        if waiting is not None and waiting.hub is not None:
            continue
        record = waiting.record if waiting is not None else _stored(member, result.id, store)
        if record is None:
            ignored.append((result, "of an order this hub does not know"))
        elif record.result is None:
            put[keys.order(member.name, result.id)] = msgspec.json.encode(
                OrderRecord(record.signed, record.by, record.submitted_s, record.expired, result)
            )
            finished.append((result.id, result))
    return Taken(tuple(ids), put, _superfluous(member, store, len(put)) if put else (), tuple(finished), tuple(ignored))


def _stored(member: Member, id: str, store: Reading) -> OrderRecord | None:
    if len(id) != 32 or not id.isalnum():
        return None
    record = store.get(keys.order(member.name, id))
    return msgspec.json.decode(record.value, type=OrderRecord) if record else None


def _superfluous(member: Member, store: Reading, coming: int) -> tuple[str, ...]:
    """Finished ones beyond what is kept: first those that opened a stream, then the oldest."""
    done = []
    for record in store.scan(keys.orders_of(member.name)):
        found = msgspec.json.decode(record.value, type=OrderRecord)
        if found.result is not None or found.expired:
            lasts = decode_order(found.signed.order).action not in STREAMS
            done.append((lasts, found.submitted_s, record.key))
    done.sort()
    return tuple(key for _, _, key in done[: max(0, len(done) + coming - KEPT_MAX)])


def cancel(
    applied: Applied | None, members: dict[str, Member], id: str, store: Reading, by: Principal
) -> tuple[Member, Waiting, dict[str, bytes]] | None:
    """Take an order that its node has not fetched out of the queue: what to write, and what to put back if that fails.
    None: it is cancelled already."""
    member = next((one for one in members.values() if store.get(keys.order(one.name, id)) is not None), None)
    record = _stored(member, id, store) if member is not None else None
    if applied is None or member is None or record is None:
        raise Invalid(f"there is no order {id}", remedy="`holdfast order list` lists the orders", code="not_found")
    order = decode_order(record.signed.order)
    order_cancelling.require_right(order, by.name if by.name != record.by else "", applied.trust)
    if record.cancelled_by and record.result is None:
        return None
    waiting = member.orders.get(id)
    if waiting is None or waiting.record is None or waiting.attempt:
        state = _view(order, record, waiting.attempt if waiting is not None else 0).state
        raise Conflict(
            f"order {id} cannot be cancelled: it is {state}"
            + (f", and {order.node} may run it" if state == "delivered" else ""),
            remedy=f"`holdfast order list --node {order.node}` shows its result",
            code="order_not_waiting",
        )
    del member.orders[id]  # before anything is awaited: no check-in gets it meanwhile
    over = msgspec.structs.replace(record, expired=True, cancelled_by=by.name)
    return member, waiting, {keys.order(member.name, id): msgspec.json.encode(over)}


def forget(member: Member, ids: Sequence[str]) -> None:
    """After their results are durable."""
    for id in ids:
        member.orders.pop(id, None)


def expired(member: Member, now_s: float) -> tuple[dict[str, bytes], list[str]]:
    """What to write, and the ids that are over."""
    over = [(id, waiting) for id, waiting in member.orders.items() if waiting.expires_s <= now_s]
    put = {
        keys.order(member.name, id): msgspec.json.encode(msgspec.structs.replace(waiting.record, expired=True))
        for id, waiting in over
        if waiting.record is not None
    }
    return put, [id for id, _ in over]


def views(store: LedgerStore, members: dict[str, Member], node: str | None, newest: int) -> list[OrderView]:
    prefix = keys.orders_of(node) if node else keys.ORDERS
    found = []
    for record in store.scan(prefix):
        stored = msgspec.json.decode(record.value, type=OrderRecord)
        order = decode_order(stored.signed.order)
        member = members.get(order.node)
        waiting = member.orders.get(order.id) if member is not None else None
        found.append(_view(order, stored, waiting.attempt if waiting is not None else 0))
    found.sort(key=lambda view: (-view.submitted_s, view.id))
    return found[:newest]


def _view(order: Order, stored: OrderRecord, attempt: int) -> OrderView:
    state: OrderState = "delivered" if attempt else "waiting"
    if stored.result is not None:
        state = stored.result.outcome
    elif stored.expired:
        state = "expired"
    return OrderView(
        order.node,
        order.id,
        order.action,
        order.target,
        state,
        stored.by,
        stored.submitted_s,
        order.expires_s,
        attempt,
        stored.result,
        order.counter,
        order.format == OLD_FORMAT if stored.result is None else stored.result.code in SIGN_AGAIN,
        stored.cancelled_by,
    )
