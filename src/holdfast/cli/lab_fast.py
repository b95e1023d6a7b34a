"""`holdfast lab fast`: detect silent nodes within seconds instead of minutes."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Restarts the hub with --pace fast; the agents follow: they check in every second, and a silent node is unhealthy within
5 s.

examples:
  holdfast lab fast
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).fast()
    return 0
