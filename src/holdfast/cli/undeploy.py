"""`holdfast undeploy SVC`: retire one service; its data stays (C-08)."""

import os
from argparse import Namespace

from holdfast.cli import session
from holdfast.cli.commit_plan import DETACH, carry_out
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.model.ids import address_of
from holdfast.planning.undeploy import plan_undeploy

DETAILS = """\
Containers, routes, DNS records and certificates go; the data directory stays on the node and the address is
tombstoned. First the node stops it, then its edge lets go of the hostname, then DNS of the names; until then a client
gets 502, never another service. Waits for all three, and names what is left. The file in services/ is left alone: a
later plan shows the service as `create` until you remove it. `holdfast retired` lists the data that stays.

examples:
  holdfast undeploy web
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    parser.add_argument("--adopt", action="store_true", help="go on although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    args.service = args.service.removeprefix("service.")
    current = session.begin(args, box)
    found = plan_undeploy(address_of("service", args.service), current.applied)
    code = carry_out(found, current.applied, current.target, current.heads, args, box, len(found.removals))
    file = os.path.join(args.fleet, "services", args.service + ".toml")
    if args.service in current.fleet.services:
        box.terminal.remark(f"{file} is still there: remove it, or the next plan creates {args.service} again.")
    return code
