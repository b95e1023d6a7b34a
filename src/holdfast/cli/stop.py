"""`holdfast stop SERVICE`: stop a service and hold it stopped, by a signed order."""

from argparse import Namespace

from holdfast.cli import order_and_wait
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Signs an order with your key (grade apply), submits it and waits until the node has signed the result. The service stays
stopped, also after a restart of its agent or machine, until `holdfast start`, `holdfast restart` or a new deployment;
`ps` marks it (held). Nothing is removed, and no standby starts. To keep a service stopped by declaration, set
active = false in its file.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast stop web
  holdfast stop web --detach
"""


def declare(parser: Parser) -> None:
    order_and_wait.declare_service(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return order_and_wait.serve("stop", args, box)
