"""`holdfast lab start NODE|hub`: start a killed node or hub again."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
A node starts with its disk as it was and an empty /run. Its agent starts with it, and on the hub's node the hub too.

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
