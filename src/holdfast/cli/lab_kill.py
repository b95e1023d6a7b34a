"""`holdfast lab kill NODE|hub`: simulate a power cut of a node, or kill one process."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
NODE: kills every process of the node at once, containers included; its disk stays. --agent: kills only the agent.
`hub`: kills only the hub's process.

examples:
  holdfast lab kill w1
  holdfast lab kill w1 --agent
  holdfast lab kill hub
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("target", metavar="NODE|hub")
    parser.add_argument("--agent", action="store_true", help="only the node's agent")


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).kill(args.target, args.agent)
    what = f"the agent of {args.target}" if args.agent else args.target
    box.terminal.remark(f"Killed {what}; holdfast lab start {args.target} starts it again")
    return 0
