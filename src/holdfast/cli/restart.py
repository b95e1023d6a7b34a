"""`holdfast restart SERVICE`: stop and start the containers of a service, by a signed order."""

from argparse import Namespace

from holdfast.cli import order_and_wait
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Signs an order with your key (grade apply), submits it and waits until the node has signed the result. A service that
was stopped runs again; a deployment that failed is tried again. On a node with reconcile = "observe" the existing
containers are stopped and started unchanged, and nothing is deployed.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast restart web
  holdfast restart web -n w2 --json
"""


def declare(parser: Parser) -> None:
    order_and_wait.declare_service(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return order_and_wait.serve("restart", args, box)
