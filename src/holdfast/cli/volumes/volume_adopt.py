"""`holdfast volume adopt SVC`: attach directories that its node did not make to a service, by a signed order."""

from argparse import Namespace

from msgspec import UNSET

from holdfast.cli.flags import Parser
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.report import Unattached, UnattachedVolumes

DETAILS = """\
A node gives a service only the directories that its agent made. A directory that was there before is refused, and the
deployment fails with the code data_not_made_here. This command shows what is in it, asks, and signs an order of grade
destroy: the service may then read and change everything in it. The node makes a checkpoint before the service starts,
and tries the failed deployment again.

Exit 0: done; 1: the node failed or refused; 2: the node reports no such directory; 4: another signature is needed;
6: no answer in time.

examples:
  holdfast volume adopt git
  holdfast volume adopt git -n w1 --yes --json
"""

ACTION = "adopt"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service that declares the volume")
    parser.add_argument("-n", "--node", metavar="NODE", help="the node that has the directory (default: the service's)")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    name = args.service.removeprefix("service.").removeprefix("data.")
    view = order_and_wait.look(args, box)
    node = args.node or _node_of(name, view)
    fleet_view.node(view, node, args)
    found, target = _unattached(name, node, view), f"data.{name}"
    signer = operator_signer(view.applied.trust.operators, args, box)
    order_and_wait.refuse_if_hopeless(ACTION, target, (node,), {}, signer, view, args)
    _ask(name, node, found, args, box)
    return order_and_wait.carry_out(ACTION, target, (node,), view, args, box)


def _node_of(name: str, view: FleetView) -> str:
    entry = view.applied.table.entries.get(f"service.{name}")
    if entry is None:
        raise fleet_view.no_service(name, sorted(view.applied.table.of_kind("service")))
    if entry.node is UNSET:
        raise Invalid(f"service.{name} has no node yet", remedy=f"holdfast plan --explain service.{name}", code="usage")
    return entry.node


def _unattached(name: str, node: str, view: FleetView) -> list[Unattached]:
    """From the node's own signed report."""
    section = view.nodes[node].section(UnattachedVolumes)
    found = [one for one in (section.unattached if section is not None else ()) if one.service == name]
    if not found:
        raise Invalid(
            f"{node} reports no directory that waits to be attached to service.{name}",
            remedy=f"`holdfast deploy {name}`: a directory that is refused is reported then",
            code="nothing_to_adopt",
        )
    return found


def _ask(name: str, node: str, found: list[Unattached], args: Namespace, box: Toolbox) -> None:
    for one in found if not args.json else ():
        much = f"{size(one.size_bytes)} in {counted(one.files, 'file')}"
        more = ", …" if one.more else ""
        box.terminal.say(f"{one.path} on {node}: {much}: {', '.join(one.names)}{more}")
    box.terminal.confirm(f"May service.{name} read and change this data?", "not attached")
