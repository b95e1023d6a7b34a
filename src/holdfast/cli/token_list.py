"""`holdfast token list`: every token of a hub, without its secret."""

from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.terminal import harmless
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.token_create import shown, target
from holdfast.cli.tools import Toolbox
from holdfast.model.token import Token

DETAILS = """\
Newest first. An expired or revoked token is listed for another 30 days.

examples:
  holdfast token list
  holdfast token list --json
"""


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    found = box.tokens(target(args, box)).tokens()
    if args.json:
        box.terminal.say(msgspec.json.encode({"tokens": [shown(token) for token in found]}).decode())
        return 0
    if not found:
        box.terminal.remark("There are no tokens; holdfast token create creates one.")
    for token in found:
        box.terminal.say(harmless(line(token)))
    return 0


def line(token: Token) -> str:
    ends = f"revoked {rfc3339(token.revoked_s)}" if token.revoked_s else f"until {rfc3339(token.expires_s)}"
    return f"{token.id}  {token.scope:<5} {ends}  by {token.created_by}  {token.name}"
