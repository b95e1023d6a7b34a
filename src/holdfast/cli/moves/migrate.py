"""`holdfast migrate SVC`: one signed revision that moves a service with its data to another node."""

from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.fleet.commit_plan import DETACH
from holdfast.cli.fleet.plan import declare_message
from holdfast.cli.moves import every_service, one_service, replaced_node
from holdfast.cli.secrets import secret_opening
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid

DETAILS = """\
The node that has the data copies it, sealed to the other node, while the service runs; then it stops the service,
copies what changed since, and signs for the handover. Only then the other node starts the service: two nodes never run
it at once. The plan shows how much data moves and how long the service stops. The old node keeps its copy (superseded:
`holdfast retired`) until a signed purge. Both nodes go on after a crash; the same command follows a move that is under
way. Without --to placement decides. Data of the service that is on the new node already is refused; --force sets it
aside there, and deletes nothing. --abort takes back a move that is under way, or the last one.

If the node that has the data is silent, the newest backup is used (--backup chooses another): the command says how old
it is, and so what is lost. Your age identity opens the key of the backup and the service's secrets for the new node.
That copy is stopped when its node is back, and kept. A move needs grade apply; with a backup, and of a protected
service, grade destroy.

--all moves every service of a node, one after another, and stops at the first that fails; the same command goes on.
Services with tier = "core" belong to the hub node and are not moved.

--all --from NODE --to NODE, the same node, is for a machine that took the place of a lost one (`holdfast agent join
--replace NODE`): one revision records its key and certificate and names the backup that each service starts with. The
node restores them one after another, tier = "core" first; one that fails holds up those after it, and `holdfast migrate
SVC --to NODE --backup ID` chooses another backup. Data that is on the new machine already stays, and --force sets it
aside. This needs grade destroy.

Exit 0: it runs on the new node; 1: it failed there; 2: no such service or node; 3: not possible; 4: another signature
is needed; 5: another move is under way; 6: not over in time, the nodes go on.

examples:
  holdfast migrate web --to w2
  holdfast migrate web --abort
  holdfast migrate --all --from w1 --to w2
  holdfast migrate --all --from w1 --to w1
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", nargs="?", default="", help="the service to move")
    parser.add_argument("--to", metavar="NODE", default="", help="the node it moves to (default: placement decides)")
    parser.add_argument("--all", action="store_true", help="move every service of the node that --from names")
    parser.add_argument("--from", metavar="NODE", dest="source", default="", help="the node, for --all")
    parser.add_argument("--force", action="store_true", help="set data of the service on the new node aside first")
    parser.add_argument("--abort", action="store_true", help="take the move back")
    parser.add_argument("--backup", metavar="ID", default="", help="begin with this backup, not with the data of now")
    secret_opening.declare(parser, "your age identity, for secrets and backups that the new node cannot open")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_message(parser)
    parser.add_argument("--adopt", action="store_true", help="continue although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    """M-49: which service is meant must not be ambiguous."""
    args.service = args.service.removeprefix("service.")
    args.to, args.source = args.to.removeprefix("node."), args.source.removeprefix("node.")
    if args.all and (args.service or args.abort or args.backup):
        raise _usage("--all moves every service of a node: SVC, --abort and --backup are for one", "leave one out")
    if args.all and not args.source:
        raise _usage("--all needs the node whose services move", "holdfast migrate --all --from NODE --to NODE")
    if not args.all and not args.service:
        raise _usage("which service is moved?", "holdfast migrate SVC --to NODE; or --all --from NODE")
    if args.source and not args.all:
        raise _usage("--from is for --all: a service moves from where it is", "leave --from out, or give --all")
    if args.abort and (args.to or args.force or args.backup):
        raise _usage("--abort takes a move back: it goes to where it came from", "leave the other options out")
    if args.all and args.source == args.to:
        return replaced_node.run(args, box)
    return every_service.run(args, box) if args.all else one_service.run(args.service, args, box)


def _usage(what: str, remedy: str) -> Invalid:
    return Invalid(what, remedy=remedy, code="usage")
