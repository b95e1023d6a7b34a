"""`holdfast purge SERVICE -n NODE`: set data that a service left there aside, or destroy it at once."""

from argparse import Namespace

from msgspec import UNSET

from holdfast.cli.checkpoints import checkpoint_view
from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.services.copies import home, is_stale, left
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid, NotPermitted
from holdfast.model.report import RetiredData

DETAILS = """\
Shows the path and the size of the data and how many checkpoints there are of it, asks, signs an order of grade destroy
for that directory on that node, and waits until the node has signed the result. The data and its checkpoints are kept
aside for 7 days, in which `holdfast retired restore` brings them back; then the node deletes them. With --now
everything is destroyed at once, also what earlier purges set aside: this cannot be undone. `holdfast retired` lists
data that can be purged: of removed services, and copies of services that moved to another node. Data of a service that
is applied on the node, or that another node is still taking over, is never purged.

Exit 0: done; 1: the node failed or refused; 3: the service is still applied there; 4: another signature is needed;
6: no answer in time.

examples:
  holdfast retired
  holdfast purge old-web -n w1
  holdfast purge old-web -n w1 --now --yes --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service whose data to purge")
    parser.add_argument("-n", "--node", metavar="NODE", help="the node that has the data")
    parser.add_argument("--now", action="store_true", help="destroy it at once; there is no way back")
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
    target, arguments = f"data.{name}", {"now": "yes"} if args.now else {}
    signer = operator_signer(view.applied.trust.operators, args, box)
    order_and_wait.refuse_if_hopeless("purge", target, (args.node,), arguments, signer, view, args)
    _ask(name, view, args, box)
    return order_and_wait.carry_out("purge", target, (args.node,), view, args, box, arguments)


def _ask(name: str, view: FleetView, args: Namespace, box: Toolbox) -> None:
    if not args.json:
        box.terminal.say(_words(name, view, args))
    if args.now:
        box.terminal.confirm("Destroy this data?", "not destroyed")
    else:
        box.terminal.confirm("Set this data aside?", "not purged")


def _words(name: str, view: FleetView, args: Namespace) -> str:
    found, aside = data_on(args.node, name, view), set_aside(args.node, name, view)
    copies, copies_bytes = checkpoint_view.amount(view, name, args.node)
    parts = [_data(args.node, found, view)] if found is not None else []
    if copies:
        parts.append(f"{counted(copies, 'checkpoint')} ({size(copies_bytes)})")
    if aside and args.now:
        sizes = size(sum(one.size_bytes + one.checkpoints_bytes for one in aside))
        parts.append(f"what {counted(len(aside), 'earlier purge')} set aside ({sizes})")
    what = ", and ".join(parts)
    if not what:
        what = f"{args.node} reports no data of {name}; if there is some, it"
    if args.now:
        return f"{what} will be destroyed. This cannot be undone."
    back = f"holdfast retired restore {name} -n {args.node}{repeated(args)}"
    return f"{what} will be set aside, and deleted after 7 days. Until then, this brings it back: {back}"


def _data(node: str, found: RetiredData, view: FleetView) -> str:
    copy = left(node, found, view.applied)
    now = home(copy.service, view.applied)
    runs = f"the service runs on {now}" if now else "the service is removed"
    whose = f" ({copy.state}; {runs})" if is_stale(copy) else ""
    return f"{found.path} on {node}{whose}: {_much(found)}"


def _much(found: RetiredData) -> str:
    return f"{size(found.size_bytes)} in {counted(found.files, 'file')}"


def data_on(node: str, name: str, view: FleetView) -> RetiredData | None:
    return next((data for data in _held(node, name, view) if not data.purge), None)


def set_aside(node: str, name: str, view: FleetView) -> list[RetiredData]:
    """By earlier purges, oldest first."""
    return sorted((data for data in _held(node, name, view) if data.purge), key=lambda data: data.until_s)


def _held(node: str, name: str, view: FleetView) -> list[RetiredData]:
    """From the node's own signed report, unless that is old."""
    one = view.nodes[node]
    held = one.report.retired if one.report is not None and not one.is_old else ()
    return [data for data in held if data.name == name]


def _in_use(name: str, node: str, args: Namespace) -> NotPermitted:
    return NotPermitted(
        f"service.{name} is applied on {node}: its data is in use",
        remedy=f"`holdfast undeploy {name}{repeated(args)}`, then purge it",
        code="still_applied",
    )


def _nowhere(name: str, view: FleetView, args: Namespace) -> Invalid | NotPermitted:
    """Without -n: name the nodes that report data. Data that an applied service left on a former node can be purged."""
    nodes = [node for node in sorted(view.nodes) if _held(node, name, view)]
    entry = view.applied.table.entries.get(f"service.{name}")
    if entry is not None and not nodes:
        return _in_use(name, entry.node if entry.node is not UNSET else "no node yet", args)
    where = f"data of {name} is on {', '.join(nodes)}" if nodes else f"no node reports data of {name}"
    return Invalid(
        f"purge needs the node: {where}",
        remedy=f"`holdfast purge {name} -n {nodes[0] if nodes else 'NODE'}`; `holdfast retired` lists retired data",
        code="usage",
    )
