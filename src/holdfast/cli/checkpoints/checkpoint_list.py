"""`holdfast checkpoint list`: the checkpoints of services, from the signed reports of the nodes."""

from argparse import Namespace

import msgspec

from holdfast.cli import tables
from holdfast.cli.checkpoints import checkpoint_view
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.services.retired import silent
from holdfast.cli.sizes import counted, size
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox

DETAILS = """\
A node copies the data of a service before another version may write into it. Such a checkpoint stays on that node: it
is a way back after a bad deployment, and no backup. The list shows the revision that wrote the data, and the revision
before which the copy was made. A restore makes a checkpoint of the data that it replaces. A node that has more than
its report has room for lists the newest of each service, and says how many older ones there are.

examples:
  holdfast checkpoint list
  holdfast checkpoint list web -n w1 --json
"""

HEADS = ("SERVICE", "NODE", "ID", "SIZE", "MADE", "COPY OF")


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", nargs="?", default="", help="only of this service (default: all)")
    parser.add_argument("-n", "--node", metavar="NODE", default="", help="only on this node (default: all)")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    if args.node:
        fleet_view.node(view, args.node, args)
    asked = args.service.removeprefix("service."), args.node
    rows, more = checkpoint_view.found(view, *asked), checkpoint_view.unlisted(view, *asked)
    unknown = [name for name in silent(view) if args.node in ("", name)]
    if args.json:
        document = {
            "checkpoints": [checkpoint_view.document(row) for row in rows],
            "unknown": unknown,
            "unlisted": [{"node": node, **msgspec.structs.asdict(one)} for node, one in more],
        }
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    if not rows:
        box.terminal.remark("No node reports a checkpoint.")
    cells = [
        (
            row.state.service,
            row.node,
            row.state.id,
            size(row.state.size_bytes),
            rfc3339(row.state.made_s),
            checkpoint_view.words(row.state),
        )
        for row in rows
    ]
    for text in tables.lines(cells, box.terminal, HEADS, tail=True) if rows else ():
        box.terminal.say(text)
    for node, one in more:
        box.terminal.remark(
            f"{one.service} on {node} has {counted(one.count, 'older checkpoint')} ({size(one.size_bytes)}) besides: "
            "the report of a node has room for the newest"
        )
    for name in unknown:
        box.terminal.remark(f"Unknown for {name}: it has no current report")
    return 0
