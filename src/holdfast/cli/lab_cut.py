"""`holdfast lab cut A [B]`: nothing passes between A and B, or between A and everybody."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Frames are dropped on the bridge, both ways, also those of connections that exist. Cuts add up until `lab heal`.

examples:
  holdfast lab cut w1
  holdfast lab cut w1 hub1
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("node", metavar="A")
    parser.add_argument("other", metavar="B", nargs="?", help="default: everybody, the host included")


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).cut(args.node, args.other)
    box.terminal.remark(f"{args.node} is cut from {args.other or 'everybody'}; holdfast lab heal mends it")
    return 0
