"""Orders: submit a signed one, take one back, list them with their results."""

from typing import Protocol

from holdfast.hub.http.operation import OPERATORS, READERS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import LIMIT, NODE, REFUSED, Route
from holdfast.hub.orders.relay import Relay
from holdfast.model.order import SignedOrder, decode_order
from holdfast.model.order_view import OrdersAnswer
from holdfast.model.principal import Principal
from holdfast.ports.clock import Clock
from holdfast.wire import codec, messages

ORDER = Operation("order", "submit a signed order for a node", OPERATORS)
CANCEL = Operation("cancel-order", "take back an order that its node has not fetched", OPERATORS)
READ_ORDERS = Operation("read-orders", "orders and their results", READERS)


class OrderDesk(Protocol):
    """It writes its own refusals into the audit log."""

    async def submit(self, principal: Principal, signed: SignedOrder, source: str) -> str: ...

    async def cancel(self, principal: Principal, id: str, source: str) -> None: ...

    def newest(self, node: str | None, newest: int) -> OrdersAnswer:
        """From any thread."""
        ...


class Orders:
    def __init__(self, orders: OrderDesk, relay: Relay, clock: Clock) -> None:
        self._orders = orders
        self._relay = relay
        self._clock = clock

    async def order(self, request: Request) -> bytes:
        signed = codec.read(request.body, SignedOrder)
        taken = await self._orders.submit(request.principal, signed, request.source)
        self._relay.expect(decode_order(signed.order), request.principal, self._clock.monotonic_s())
        return codec.write(messages.OrderTaken(taken))

    async def cancel(self, request: Request) -> bytes:
        await self._orders.cancel(request.principal, request.path["order"], request.source)
        return codec.write(messages.OrderCancelled(request.path["order"]))

    def orders(self, request: Request) -> bytes:
        return codec.write(self._orders.newest(request.query["node"] or None, request.query["limit"]))


ROUTES = (
    Route(
        "POST",
        "/v1/orders",
        ORDER,
        "Submit a signed order; answers when it is durable",
        Orders,
        Orders.order,
        messages.OrderTaken,
        SignedOrder,
        cost="fleet",
        refusals=REFUSED,
    ),
    Route(
        "GET",
        "/v1/orders",
        READ_ORDERS,
        "Orders and their results, newest first",
        Orders,
        Orders.orders,
        OrdersAnswer,
        query=(NODE, LIMIT),
        refusals=(400, 404, 409),
    ),
    Route(
        "POST",
        "/v1/orders/{order}/cancellation",
        CANCEL,
        "Take an order back before its node has fetched it; answers when that is durable",
        Orders,
        Orders.cancel,
        messages.OrderCancelled,
        messages.CancelOrderRequest,
        cost="fleet",
        refusals=(*REFUSED, 404),
    ),
)
