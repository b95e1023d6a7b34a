"""`holdfast version`: the version of this program."""

from argparse import Namespace

import msgspec

from holdfast import __version__
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
examples:
  holdfast version
  holdfast version --json | jq -r .version
"""


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"version": __version__}).decode())
    else:
        box.terminal.say(f"holdfast {__version__}")
    return 0
