"""`holdfast deploy SVC`: an apply limited to one address (C-09)."""

from argparse import Namespace

from holdfast.cli.apply import apply_directory
from holdfast.cli.commit_plan import DETACH
from holdfast.cli.flags import Parser
from holdfast.cli.plan import declare_shared
from holdfast.cli.tools import Toolbox
from holdfast.model.ids import address_of

DETAILS = """\
Plans and applies one service; every other edit in the directory stays pending. Waits until its node says that it runs
and is healthy, and its edge that its public hostname is live; a failed one leaves what served before. What serves
internally and is not public yet is exit 1 with the step; the same command again goes on from there.

examples:
  holdfast deploy web
  holdfast deploy web --yes --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service: its file stem in services/")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return apply_directory(args, box, only=address_of("service", args.service.removeprefix("service.")))
