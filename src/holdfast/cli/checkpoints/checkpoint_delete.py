"""`holdfast checkpoint delete SVC ID`: delete one checkpoint on its node, by a signed order."""

from argparse import Namespace

from holdfast.cli.checkpoints import checkpoint_view
from holdfast.cli.flags import Parser
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.orders import order_and_wait
from holdfast.cli.tools import Toolbox

DETAILS = """\
Shows what the checkpoint is a copy of, asks, signs an order of grade destroy and waits until the node has signed the
result. The data of the service is not touched. This cannot be undone. ID may be the beginning of an id.

Exit 0: done; 1: the node failed or refused; 2: no node reports such a checkpoint; 4: another signature is needed;
6: no answer in time.

examples:
  holdfast checkpoint delete web 4f0c2a
  holdfast checkpoint delete web 4f0c2a -n w1 --yes --json
"""

ACTION = "delete-checkpoint"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service whose data it is a copy of")
    parser.add_argument("id", metavar="ID", help="the checkpoint, as `holdfast checkpoint list` shows it")
    parser.add_argument("-n", "--node", metavar="NODE", default="", help="the node that has it")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    name = args.service.removeprefix("service.")
    view = order_and_wait.look(args, box)
    row = checkpoint_view.named(view, name, args.id, args.node)
    target, arguments = f"data.{name}", {"checkpoint": row.state.id}
    signer = operator_signer(view.applied.trust.operators, args, box)
    order_and_wait.refuse_if_hopeless(ACTION, target, (row.node,), arguments, signer, view, args)
    if not args.json:
        is_last = checkpoint_view.amount(view, name, row.node)[0] == 1
        last = f" It is the last checkpoint of {name} on {row.node}." if is_last else ""
        box.terminal.say(f"{checkpoint_view.line(row)}. It cannot be brought back.{last}")
    box.terminal.confirm("Delete this checkpoint?", "not deleted")
    return order_and_wait.carry_out(ACTION, target, (row.node,), view, args, box, arguments)
