"""`holdfast lab start NODE|hub`: what was killed comes back."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
A node boots with the disk it had and an empty /run; its agent (and the hub, on the hub's node) start with it.

examples:
  holdfast lab start w1
  holdfast lab start hub
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("target", metavar="NODE|hub")


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).start(args.target)
    return 0
