"""`holdfast stop SVC`: stop a service and hold it stopped, by a signed order."""

from argparse import Namespace

from holdfast.cli import order_and_wait
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Signs an order with your key (grade apply), hands it in and waits until the node itself has signed for the result. The
service stays stopped, also when its agent or its machine starts anew, until `holdfast start`, `holdfast restart` or a
new deployment; `ps` shows it as held. Nothing is removed, and nobody stands in for it. To have it stopped by
declaration, set active = false in its file.

Exit 0: done; 1: the node tried and failed, or refused; 4: it takes another signature; 6: nobody said in time.

examples:
  holdfast stop web
  holdfast stop web --detach
"""


def declare(parser: Parser) -> None:
    order_and_wait.declare_service(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return order_and_wait.serve("stop", args, box)
