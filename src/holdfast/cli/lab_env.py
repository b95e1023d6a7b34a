"""`holdfast lab env`: print the variables that make every command use the lab."""

from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
examples:
  eval "$(holdfast lab env)"
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    variables = lab_dir.lab(args, box).variables()
    if args.json:
        box.terminal.say(msgspec.json.encode(variables).decode())
        return 0
    for name, value in variables.items():
        box.terminal.say(f"export {name}={quote(value)}")
    return 0
