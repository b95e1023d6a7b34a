"""`holdfast token revoke ID`: make the hub refuse that token from its next request on."""

import re
from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.token_create import shown, target
from holdfast.cli.token_list import line
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.token import TOKEN_ID_PATTERN

DETAILS = """\
ID is the first column of `holdfast token list`, and the middle part of the token (hf_ID_…). Revoking again is not an
error.

examples:
  holdfast token revoke 0f3a91c2b4d5e6f7
"""


def declare(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID")


def run(args: Namespace, box: Toolbox) -> int:
    if not re.match(TOKEN_ID_PATTERN, args.id):
        # Never repeat it: it may be a whole token, and this goes to logs.
        raise Invalid("this is not the id of a token", remedy="holdfast token list shows ids: 16 hexadecimal digits")
    ended = box.tokens(target(args, box)).revoke_token(args.id)
    if args.json:
        box.terminal.say(msgspec.json.encode({"token": shown(ended)}).decode())
    else:
        box.terminal.say(line(ended))
    return 0
