"""The signed order that asks one node to open a log stream."""

from argparse import Namespace

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.logs import log_sources
from holdfast.cli.logs.log_call import Call, Inbox
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_fleet
from holdfast.cli.tools import Toolbox
from holdfast.model.order import NAMESPACE, SignedOrder
from holdfast.model.stream import LogsWanted
from holdfast.ports.hub_link import OrderDesk
from holdfast.ports.stream_link import CallerStreams, Pinned
from holdfast.trust import orders
from holdfast.wire import stream as wire

EXPIRES_S = 120  # a node that fetches the order later finds no listening command


class Ordering(Struct, frozen=True):
    """Signs and submits the order that asks one node to open a stream."""

    view: FleetView
    desk: OrderDesk
    service: str
    wanted: LogsWanted
    streams: CallerStreams
    box: Toolbox
    args: Namespace

    def call(self, node: str, inbox: Inbox, leap: int = 0) -> tuple[str, Call]:
        """The order's id, and a call that is not started yet. Each stream has its own key."""
        pinned: Pinned = log_sources.pinned(self.view, node, self.args)
        key = self.streams.key()
        signed, id = self._signed(node, replace(self.wanted, caller=key.certificate), leap)
        self.desk.submit(signed)
        return id, Call(self.streams, id, key, pinned, inbox)

    def _signed(self, node: str, wanted: LogsWanted, leap: int) -> tuple[SignedOrder, str]:
        applied, now_s = self.view.applied, self.box.clock.now_s()
        counter = order_fleet.next_counter(self.desk, applied, node, self.args, now_s) + leap
        id, nonce = self.box.keys.random_hex(16), self.box.keys.random_hex(16)
        said = wire.arguments(wanted)
        target = f"service.{self.service}"
        content, spoken = orders.draft(
            applied.fleet_id, node, target, "logs", said, counter, nonce, id, now_s, now_s + EXPIRES_S
        )
        signer = operator_signer(applied.trust.operators, self.args, self.box)
        signed = SignedOrder(content, spoken, (signer.sign(content, NAMESPACE),))
        orders.verify(signed, applied.fleet_id, node, applied.trust, now_s)  # do not send what the node would refuse
        return signed, id
