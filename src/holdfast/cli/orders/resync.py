"""`holdfast resync`: one signed order after which a node whose state was put back runs orders again."""

from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.orders import order_and_wait
from holdfast.cli.tools import Toolbox

DETAILS = """\
A node whose state was put back to an older copy (a restored backup or snapshot, a lost agent.db) does not know which
orders it ran. It runs none and reports resync_needed. Check first that the copy is the one that is wanted: services and
data are as that copy and the applied revision say. After the resync no order that was signed before it runs; sign what
is still wanted again.

example:
  holdfast resync w1
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NODE", help="name of the node")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    view = order_and_wait.look(args, box)
    report = fleet_view.node(view, args.name, args).report
    for finding in report.findings if report is not None else ():
        if finding.code == "resync_needed" and not args.json:
            box.terminal.say(f"{args.name}: {finding.message}")
    return order_and_wait.carry_out("resync", f"node.{args.name}", [args.name], view, args, box)
