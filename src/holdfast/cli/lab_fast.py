"""`holdfast lab fast`: seconds instead of minutes until silence is noticed."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
The hub starts again at a quick pace and the agents take it over: heartbeat and poll every second, a silent node is
unhealthy within 5 s.

examples:
  holdfast lab fast
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    lab_dir.lab(args, box).fast()
    return 0
