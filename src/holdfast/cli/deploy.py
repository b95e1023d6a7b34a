"""`holdfast deploy SVC`: an apply limited to one address (C-09)."""

from argparse import Namespace

from holdfast.cli.apply import apply_directory
from holdfast.cli.flags import Parser
from holdfast.cli.plan import declare_shared
from holdfast.cli.toolbox import Toolbox
from holdfast.model.ids import address_of

DETAILS = """\
Plans and applies one service; every other edit in the directory stays pending.

examples:
  holdfast deploy web
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service: its file stem in services/")
    parser.add_argument("--detach", action="store_true", help="do not wait for nodes (an offline ledger has none)")
    declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return apply_directory(args, box, only=address_of("service", args.service.removeprefix("service.")))
