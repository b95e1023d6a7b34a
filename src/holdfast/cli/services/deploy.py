"""`holdfast deploy SERVICE`: an apply limited to one address (C-09)."""

from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.fleet.apply import apply_directory
from holdfast.cli.fleet.commit_plan import DETACH
from holdfast.cli.fleet.plan import declare_message, declare_shared
from holdfast.cli.tools import Toolbox
from holdfast.model.ids import address_of

DETAILS = """\
Plans and applies one service; every other edit in the directory stays pending. Waits until its node reports it running
and healthy, and its edge reports its public hostname live. If a step fails, the previous version keeps serving and the
exit code is 1, also when the service runs but its public hostname is not live; run the same command again to continue.

examples:
  holdfast deploy web
  holdfast deploy web --yes --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml)")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_message(parser)
    declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return apply_directory(args, box, only=address_of("service", args.service.removeprefix("service.")))
