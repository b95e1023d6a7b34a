"""`holdfast start SVC`: let a stopped service run again, by a signed order."""

from argparse import Namespace

from holdfast.cli import order_and_wait
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Lifts what `holdfast stop` set: signs an order with your key (grade apply), hands it in and waits until the node itself
has signed for the result. A service that runs is left as it is.

Exit 0: done; 1: the node tried and failed, or refused; 4: it takes another signature; 6: nobody said in time.

examples:
  holdfast start web
  holdfast start web --timeout 10m
"""


def declare(parser: Parser) -> None:
    order_and_wait.declare_service(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return order_and_wait.serve("start", args, box)
