"""`holdfast sync`: apply all of the directory (M-120); `--dry-run` shows it (M-121)."""

from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import plan
from holdfast.cli.fleet.apply import apply_directory
from holdfast.cli.fleet.commit_plan import DETACH
from holdfast.cli.tools import Toolbox

DETAILS = """\
The same as apply: new services are created, changed ones updated, and services that are applied but no longer declared
are retired, which needs --allow-removals N.

examples:
  holdfast sync --dry-run
  holdfast sync --yes
"""


def declare(parser: Parser) -> None:
    parser.add_argument("--detach", action="store_true", help=DETACH)
    plan.declare_message(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    plan.declare_shared(parser)
    parser.set_defaults(out=None, explain=None)


def run(args: Namespace, box: Toolbox) -> int:
    return plan.run(args, box) if args.dry_run else apply_directory(args, box)
