"""`holdfast lab kill NODE|hub`: a power cut for a node, or the end of one process."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
NODE: every process of it goes at once, containers included; its disk stays. --agent: only the agent. `hub`: only the
hub's process.

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
    box.terminal.remark(f"{what} is off; holdfast lab start {args.target} brings it back")
    return 0
