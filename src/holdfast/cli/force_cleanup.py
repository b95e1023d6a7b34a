"""`holdfast force-cleanup SERVICE`: remove all containers of a service in any state; its data stays."""

from argparse import Namespace

from msgspec import UNSET

from holdfast.cli import fleet_view, order_and_wait
from holdfast.cli.flags import Parser
from holdfast.cli.fleet_view import FleetView
from holdfast.cli.tools import Toolbox

DETAILS = """\
For problems that ordinary commands cannot fix. A signed order (grade apply) removes every container of the service that
the agent created on that node, and forgets failed attempts. Data, images and other containers are not touched. If the
service is applied, it is then deployed again; if it was removed, only its data remains. A node with
reconcile = "observe" refuses, because it would not create the containers again.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

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
    """Includes removed services and former nodes: their leftover containers are what this verb is for."""
    if args.node:
        fleet_view.node(view, args.node, args)
        return (args.node,)
    stone = view.applied.table.tombstones.get(f"service.{name}")
    if stone is not None and stone.node is not UNSET and stone.node in view.nodes:
        return (stone.node,)
    return order_and_wait.places(name, view, None, args)
