"""Streams: the two ends of a stream that an order opens meet here. The hub reads nothing of what goes through."""

from holdfast.hub.http.operation import NODES, OPERATORS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import Route
from holdfast.hub.orders.relay import Half, Relay
from holdfast.model.stream import PROTOCOL
from holdfast.ports.clock import Clock

SWITCH = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n".encode()

# The operator who gave the order, and the node it is for: hub/orders/relay.py checks that.
STREAM = Operation(
    "stream",
    "one end of the stream that an order opens; what goes through is sealed between the two ends",
    OPERATORS | NODES,
)


class Streams:
    def __init__(self, relay: Relay, clock: Clock) -> None:
        self._relay = relay
        self._clock = clock

    async def stream(self, request: Request) -> None:
        """No response follows: 101 is the last one, and the connection ends with the stream."""
        now_s = self._clock.monotonic_s()
        meeting, end = await self._relay.meet(request.path["order"], request.principal, now_s, request.is_gone)
        half = Half(request.connection)
        try:
            await request.connection.switch(half, SWITCH)
            await meeting.run(end, half)
        finally:
            self._relay.leave(meeting)


ROUTES = (
    Route(
        "GET",
        "/v1/streams/{order}",
        STREAM,
        "One end of the stream that this order opens; with `Upgrade: holdfast-stream/1` the answer is 101 and a pipe",
        Streams,
        Streams.stream,
        None,
        cost="stream",
        refusals=(400, 404, 409),
    ),
)
