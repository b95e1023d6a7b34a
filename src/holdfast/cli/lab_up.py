"""`holdfast lab up`: start a real fleet on this machine."""

from argparse import Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

NODES = "hub1:hub+worker,w1:worker,e1:edge"

DETAILS = f"""\
Each node has its own namespaces, address in 100.64.0.0/10, podman store and agent; a registry with example images is on
the bridge between them. Returns once every node has joined and is healthy. D/fleet is the fleet directory, D/operator
is a key that can sign everything. If the lab is already up, the command starts what was killed and changes nothing
else. Needs root. Several labs can run in different directories.

examples:
  holdfast lab up && eval "$(holdfast lab env)" && holdfast node list
  holdfast lab up --dir /tmp/five --nodes {NODES},w2:worker,w3:worker
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("--nodes", metavar="NAME:ROLE+ROLE,…", default=NODES, help=f"default {NODES}")
    parser.add_argument("--bare", action="store_true", help="machines, network and registry only: no hub, no agents")


def run(args: Namespace, box: Toolbox) -> int:
    lab = lab_dir.lab(args, box)
    lab.up(args.nodes, args.bare)
    flag = f" --dir {args.dir}" if args.dir else ""
    box.terminal.remark(f'Next: eval "$(holdfast lab env{flag})" && holdfast node list')
    return 0
