"""`holdfast lab down`: no namespace, mount, link, process or container stays."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Works on whatever is left of a lab: half made, killed, partly gone. Its directory goes too, D/fleet and D/operator
included: copy first what you want to keep.

examples:
  holdfast lab down
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).down()
    return 0
