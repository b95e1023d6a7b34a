"""The flag --dir of every `lab` verb: where the lab is."""

from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.ports.lab import Lab

DEFAULT = ".lab"


def declare(parser: Parser) -> None:
    parser.add_argument("--dir", metavar="D", help="the lab's directory (default: $HOLDFAST_LAB, else .lab)")


def lab(args: Namespace, box: Toolbox) -> Lab:
    return box.lab(args.dir or box.environ.get("HOLDFAST_LAB") or DEFAULT)
