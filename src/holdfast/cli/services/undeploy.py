"""`holdfast undeploy SERVICE`: retire one service; its data stays (C-08)."""

import os
from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import session
from holdfast.cli.fleet.commit_plan import DETACH, carry_out
from holdfast.cli.fleet.plan import declare_message
from holdfast.cli.tools import Toolbox
from holdfast.model.ids import address_of
from holdfast.planning.undeploy import plan_undeploy

DETAILS = """\
Removes containers, routes, DNS records and certificates. The data directory stays on the node, and the revision records
the removal (a tombstone). First the node stops the service, then its edge removes the hostname, then DNS the names;
until then a client gets 502, never another service. Waits for all three and reports what remains. The file in services/
is not changed: plan shows the service as `create` until you remove the file. `holdfast retired` lists the data.

examples:
  holdfast undeploy web
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml)")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_message(parser)
    parser.add_argument("--adopt", action="store_true", help="continue although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    args.service = args.service.removeprefix("service.")
    current = session.standing(args, box, drafts=True)
    found = plan_undeploy(address_of("service", args.service), current.applied)
    code = carry_out(found, current.applied, current.target, current.heads, args, box, len(found.removals))
    file = os.path.join(args.fleet, "services", args.service + ".toml")
    if os.path.lexists(file):
        box.terminal.remark(f"{file} still exists. Remove it, or the next apply creates {args.service} again.")
    return code
