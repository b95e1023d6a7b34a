"""What the hub does with nodes: decode, count, ask the fleet, encode. Runs on the event loop, where the fleet lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from holdfast.hub.orders.relay import Relay
from holdfast.model.checkin import CheckIn, JoinRequest
from holdfast.model.invite import SignedRevocation
from holdfast.model.order import SignedOrder, decode_order
from holdfast.wire import codec, messages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.hub.http.desk import Ask
    from holdfast.hub.http.limiter import Limiter
    from holdfast.hub.orders.relay import End, Meeting
    from holdfast.model.checkin import CheckInAnswer, JoinAnswer, NodeNews, NodesAnswer
    from holdfast.model.hub_status import StatusFinding
    from holdfast.model.observation import NodeObservation
    from holdfast.model.order_view import OrdersAnswer
    from holdfast.model.principal import Principal
    from holdfast.model.revision import Head
    from holdfast.ports.clock import Clock


class FleetCore(Protocol):
    """The fleet as the HTTP server needs it (hub/fleet.py). It audits what it refuses itself."""

    # ---- on the event loop

    def node_of_key(self, line: str) -> Principal | None: ...

    async def join(self, principal: Principal, request: JoinRequest, source: str) -> JoinAnswer: ...

    async def check_in(
        self, principal: Principal, message: CheckIn, source: str, is_gone: Callable[[], bool]
    ) -> CheckInAnswer:
        """Held for as long as the message allows and there is nothing to say."""
        ...

    async def submit(self, principal: Principal, signed: SignedOrder, source: str) -> str: ...

    async def revoke(self, principal: Principal, signed: SignedRevocation, source: str) -> None: ...

    async def news(self, after: int, wait_s: float) -> NodeNews:
        """Held until a node has said something else."""
        ...

    async def run(self) -> None:
        """Until cancelled."""
        ...

    # ---- from any thread

    def committed(self, nodes: Iterable[str] | None) -> None: ...

    def nodes(self, names: Collection[str] = ()) -> NodesAnswer: ...

    def converged(self, revisions: Sequence[Head]) -> tuple[int, ...]: ...

    def orders(self, node: str | None, newest: int) -> OrdersAnswer: ...

    def audit_lines(self, node: str | None, after: int, limit: int) -> Sequence[bytes]: ...

    def audit_entries(self, node: str | None) -> int: ...

    def observations(self) -> Mapping[str, NodeObservation]: ...

    def status_findings(self) -> Sequence[StatusFinding]: ...


class Counter:
    def __init__(self, fleet: FleetCore, limiter: Limiter, clock: Clock) -> None:
        self._fleet = fleet
        self._limiter = limiter
        self._clock = clock
        self.relay = Relay()

    async def join(self, ask: Ask) -> bytes:
        """Only a join that was accepted counts against the limit: the others cost nobody a minute (D-08)."""
        request = codec.read(ask.body, JoinRequest)
        self._limiter.register(ask.principal, self._clock.monotonic_s())
        answer = await self._fleet.join(ask.principal, request, ask.source)
        if answer.accepted:
            self._limiter.registered(ask.principal, self._clock.monotonic_s())
        return codec.write(answer)

    async def check_in(self, ask: Ask) -> bytes:
        message = codec.read(ask.body, CheckIn)
        self._limiter.check_in(ask.principal, message.heartbeat, self._clock.monotonic_s())
        return codec.write(await self._fleet.check_in(ask.principal, message, ask.source, ask.is_gone))

    async def news(self, ask: Ask) -> bytes:
        return codec.write(await self._fleet.news(ask.query["after"], ask.query["wait_ms"] / 1000))

    async def order(self, ask: Ask) -> bytes:
        signed = codec.read(ask.body, SignedOrder)
        taken = await self._fleet.submit(ask.principal, signed, ask.source)
        self.relay.expect(decode_order(signed.order), ask.principal, self._clock.monotonic_s())
        return codec.write(messages.OrderTaken(taken))

    async def stream(self, ask: Ask) -> tuple[Meeting, End]:
        return await self.relay.meet(ask.path["order"], ask.principal, self._clock.monotonic_s(), ask.is_gone)

    async def revoke(self, ask: Ask) -> bytes:
        await self._fleet.revoke(ask.principal, codec.read(ask.body, SignedRevocation), ask.source)
        return codec.write(messages.RevocationTaken())
