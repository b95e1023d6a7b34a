"""`holdfast lab exec NODE -- CMD`: run a command inside a node."""

from argparse import REMAINDER, Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid

DETAILS = """\
Runs the command in the node's namespaces with the variables of `lab env`. The host's files are visible, except /run,
/srv, /var/lib/holdfast and /var/lib/containers, which the node has for itself. The exit code is that of the command.

examples:
  holdfast lab exec w1 -- podman ps
  holdfast lab exec e1 -- busybox ip addr
  holdfast lab exec w1 -- holdfast node list
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("command", metavar="-- CMD", nargs=REMAINDER, help="the command and its arguments")


def run(args: Namespace, box: Toolbox) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise Invalid("no command was given", remedy=f"holdfast lab exec {args.node} -- CMD", code="usage")
    return lab_dir.lab(args, box).run_inside(args.node, command)
