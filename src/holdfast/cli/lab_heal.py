"""`holdfast lab heal`: end every cut."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
examples:
  holdfast lab heal
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).heal()
    box.terminal.remark("All cuts are removed.")
    return 0
