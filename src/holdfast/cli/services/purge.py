"""`holdfast purge SERVICE -n NODE`: destroy the data of a service that is no longer applied there."""

from argparse import Namespace

from msgspec import UNSET

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.sizes import counted, size
from holdfast.cli.terminal import harmless
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid, NotPermitted
from holdfast.model.report import RetiredData

DETAILS = """\
Shows the path and the size of the data, asks, signs an order of grade destroy for that directory on that node, and
waits until the node has signed the result. This cannot be undone. `holdfast retired` lists data that can be purged; a
service that is applied on the node is never purged.

Exit 0: done; 1: the node failed or refused; 3: the service is still applied there; 4: another signature is needed;
6: no answer in time.

examples:
  holdfast retired
  holdfast purge old-web -n w1
  holdfast purge old-web -n w1 --yes --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service whose data to destroy")
    parser.add_argument("-n", "--node", metavar="NODE", help="the node that has the data")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    name = args.service.removeprefix("service.").removeprefix("data.")
    view = order_and_wait.look(args, box)
    if not args.node:
        raise _nowhere(name, view, args)
    fleet_view.node(view, args.node, args)
    entry = view.applied.table.entries.get(f"service.{name}")
    if entry is not None and entry.node == args.node:
        raise _in_use(name, args.node, args)
    target = f"data.{name}"
    signer = operator_signer(view.applied.trust.operators, args, box)
    order_and_wait.refuse_if_hopeless("purge", target, args.node, signer, view, args)
    _ask(name, view, args, box)
    return order_and_wait.carry_out("purge", target, (args.node,), view, args, box)


def _ask(name: str, view: FleetView, args: Namespace, box: Toolbox) -> None:
    found = data_on(args.node, name, view)
    if found is None:
        what = f"{args.node} reports no data of {name}; if there is some, it will be destroyed"
    else:
        much = f"{size(found.size_bytes)} in {counted(found.files, 'file')}"
        what = f"{found.path} on {args.node}: {much} will be destroyed"
    if not args.json:
        box.terminal.say(harmless(f"{what}. This cannot be undone."))
    box.terminal.confirm("Destroy this data?", "not destroyed")


def data_on(node: str, name: str, view: FleetView) -> RetiredData | None:
    """From the node's own signed report, unless that is old."""
    one = view.nodes[node]
    held = one.report.retired if one.report is not None and not one.is_old else ()
    return next((data for data in held if data.name == name), None)


def _in_use(name: str, node: str, args: Namespace) -> NotPermitted:
    return NotPermitted(
        f"service.{name} is applied on {node}: its data is in use",
        remedy=f"`holdfast undeploy {name}{repeated(args)}`, then purge it",
        code="still_applied",
    )


def _nowhere(name: str, view: FleetView, args: Namespace) -> Invalid | NotPermitted:
    """Without -n: name the nodes that report data. Data that an applied service left on a former node can be purged."""
    nodes = [node for node in sorted(view.nodes) if data_on(node, name, view) is not None]
    entry = view.applied.table.entries.get(f"service.{name}")
    if entry is not None and not nodes:
        return _in_use(name, entry.node if entry.node is not UNSET else "no node yet", args)
    where = f"data of {name} is on {', '.join(nodes)}" if nodes else f"no node reports data of {name}"
    return Invalid(
        f"purge needs the node: {where}",
        remedy=f"`holdfast purge {name} -n {nodes[0] if nodes else 'NODE'}`; `holdfast retired` lists retired data",
        code="usage",
    )
