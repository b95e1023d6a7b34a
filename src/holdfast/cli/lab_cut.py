"""`holdfast lab cut A [B]`: drop all traffic between A and B, or between A and all others."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
The bridge drops frames in both directions, also of open connections. Cuts add up until `holdfast lab heal`.

examples:
  holdfast lab cut w1
  holdfast lab cut w1 hub1
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("node", metavar="A")
    parser.add_argument("other", metavar="B", nargs="?", help="default: all nodes and the host")


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).cut(args.node, args.other)
    box.terminal.remark(
        f"{args.node} is cut from {args.other or 'all nodes and the host'}; holdfast lab heal ends all cuts"
    )
    return 0
