"""`holdfast start SERVICE`: start a stopped service again, by a signed order."""

from argparse import Namespace

from holdfast.cli import order_and_wait
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Undoes `holdfast stop`: signs an order with your key (grade apply), submits it and waits until the node has signed the
result. A running service is not changed.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast start web
  holdfast start web --timeout 10m
"""


def declare(parser: Parser) -> None:
    order_and_wait.declare_service(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return order_and_wait.serve("start", args, box)
