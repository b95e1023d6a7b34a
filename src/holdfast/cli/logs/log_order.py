"""The signed order that asks one node to open a log stream."""

from argparse import Namespace

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.logs import log_sources
from holdfast.cli.logs.log_call import Call, Inbox
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_basis
from holdfast.cli.tools import Toolbox
from holdfast.errors import SignatureRequired
from holdfast.model.order import NAMESPACE, SignedOrder
from holdfast.model.stream import LogsWanted
from holdfast.model.trust import threshold
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
        applied = self.view.applied
        drafted, id = order_basis.drafted(
            "logs",
            f"service.{self.service}",
            node,
            wire.arguments(wanted),
            self.desk,
            applied,
            self.args,
            self.box,
            EXPIRES_S,
            leap,
        )
        signer = operator_signer(applied.trust.operators, self.args, self.box)
        signed = replace(drafted, signatures=(signer.sign(drafted.order, NAMESPACE),))
        now_s = self.box.clock.now_s()
        try:  # do not send what the node would refuse
            orders.verify(signed, applied.fleet_id, node, applied.trust, now_s)
        except SignatureRequired as trouble:
            raise SignatureRequired(trouble.message, remedy=self._instead(node)) from trouble
        return signed, id

    def _instead(self, node: str) -> str:
        """This order cannot be signed in a file: the command that gives it listens."""
        if threshold(self.view.applied.trust, "apply") == 1:
            return "sign with the key of an operator who may: --key FILE"
        return f"a stream has one signature; read the logs on {node}, whose containers this lists: podman ps --all"
