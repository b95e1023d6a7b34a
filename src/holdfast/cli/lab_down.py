"""`holdfast lab down`: remove every namespace, mount, link, process and container of the lab."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Works on every lab: incomplete, killed or partly removed. The lab's directory is deleted too, with D/fleet and
D/operator: first copy what you want to keep.

examples:
  holdfast lab down
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).down()
    return 0
