"""`holdfast force-cleanup SVC`: remove the containers of a service whatever state they are in; its data stays."""

from argparse import Namespace

from msgspec import UNSET

from holdfast.cli import fleet_view, order_and_wait
from holdfast.cli.flags import Parser
from holdfast.cli.fleet_view import FleetView
from holdfast.cli.tools import Toolbox

DETAILS = """\
For what ordinary commands cannot mend: a signed order (grade apply) removes every container of the service that the
agent made on that node, and forgets what failed. Data, images and containers of anybody else are not touched. A
service that is applied is then deployed anew; of one that was removed nothing is left but its data. A node with
reconcile = "observe" refuses, as it would make nothing anew.

Exit 0: done; 1: the node tried and failed, or refused; 4: it takes another signature; 6: nobody said in time.

examples:
  holdfast force-cleanup web
  holdfast force-cleanup old-web -n w2
"""


def declare(parser: Parser) -> None:
    order_and_wait.declare_service(parser)


def run(args: Namespace, box: Toolbox) -> int:
    name = args.service.removeprefix("service.")
    view = order_and_wait.look(args, box)
    return order_and_wait.carry_out("force-cleanup", f"service.{name}", _places(name, view, args), view, args, box)


def _places(name: str, view: FleetView, args: Namespace) -> tuple[str, ...]:
    """Also of a service that is gone, and on a node that it left: what is left over there is what this verb is for."""
    if args.node:
        fleet_view.node(view, args.node, args)
        return (args.node,)
    stone = view.applied.table.tombstones.get(f"service.{name}")
    if stone is not None and stone.node is not UNSET and stone.node in view.nodes:
        return (stone.node,)
    return order_and_wait.places(name, view, None, args)
