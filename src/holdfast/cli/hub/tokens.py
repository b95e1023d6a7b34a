"""`holdfast token create|list|revoke`: read-only tokens of a hub. A secret is printed once, when it is created."""

import re
from argparse import Namespace

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Command, Parser, declare_nothing
from holdfast.cli.fleet import session
from holdfast.cli.text import block
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model import duration
from holdfast.model.token import EXPIRES_S_DEFAULT, EXPIRES_S_MAX, TOKEN_ID_PATTERN, Token

_CREATE = """\
The token gives read-only access to the hub. It is printed once, on stdout; the hub keeps only its hash.

examples:
  holdfast token create --name grafana --expires 30d
  curl -H "Authorization: Bearer $(holdfast token create -q --name once --expires 1h)" https://hub.example:9555/v1/status
"""


def _declare_create(parser: Parser) -> None:
    parser.add_argument("--name", metavar="NAME", default="", help="its purpose (default: its id)")
    parser.add_argument(
        "--expires", metavar="TIME", default="", help="validity, such as 12h or 30d (default 30d, at most 366d)"
    )


def _create(args: Namespace, box: Toolbox) -> int:
    expires_in_s = _seconds(args.expires) if args.expires else EXPIRES_S_DEFAULT
    if args.name and not re.fullmatch(r"[!-~][ -~]{0,63}", args.name):
        raise Invalid(
            f"{args.name!r} is not a valid name for a token", remedy="use at most 64 printable ASCII characters"
        )
    made = box.hubs.tokens(session.found_target(args, box)).create_token(args.name, expires_in_s)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"token": _shown(made.token), "text": made.text}).decode())
        return 0
    box.terminal.remark(
        f"Token {made.token.id} is valid until {rfc3339(made.token.expires_s)}. It is shown only once; revoke it with: "
        f"holdfast token revoke {made.token.id}"
    )
    box.terminal.say(made.text)
    return 0


_LIST = """\
Newest first. An expired or revoked token is listed for another 30 days.

examples:
  holdfast token list
  holdfast token list --json
"""


def _list(args: Namespace, box: Toolbox) -> int:
    found = box.hubs.tokens(session.found_target(args, box)).tokens()
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"tokens": [_shown(token) for token in found]}).decode())
        return 0
    if not found:
        box.terminal.remark("There are no tokens; holdfast token create creates one.")
    for line in tables.lines([_cells(token) for token in found], box.terminal):
        box.terminal.say(line)
    return 0


_REVOKE = """\
ID is the first column of `holdfast token list`, and the middle part of the token (hf_ID_…). Revoking again is not an
error.

examples:
  holdfast token revoke 0f3a91c2b4d5e6f7
"""


def _declare_revoke(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID")


def _revoke(args: Namespace, box: Toolbox) -> int:
    if not re.match(TOKEN_ID_PATTERN, args.id):
        # Never repeat it: it may be a whole token, and this goes to logs.
        raise Invalid("this is not the id of a token", remedy="`holdfast token list` shows ids: 16 hexadecimal digits")
    ended = box.hubs.tokens(session.found_target(args, box)).revoke_token(args.id)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"token": _shown(ended)}).decode())
    else:
        box.terminal.say(block(tables.lines([_cells(ended)], box.terminal)))
    return 0


def _shown(token: Token) -> dict[str, str | None]:
    """The token's JSON form."""
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "created_by": token.created_by,
        "created": rfc3339(token.created_s),
        "expires": rfc3339(token.expires_s),
        "revoked": rfc3339(token.revoked_s) if token.revoked_s else None,
    }


def _cells(token: Token) -> tuple[str, ...]:
    ends = f"revoked {rfc3339(token.revoked_s)}" if token.revoked_s else f"until {rfc3339(token.expires_s)}"
    return token.id, token.scope, ends, f"by {token.created_by}", token.name


def _seconds(text: str) -> int:
    seconds = duration.milliseconds(text) // 1000 if re.fullmatch(duration.PATTERN, text) else 0
    if not 0 < seconds <= EXPIRES_S_MAX:
        raise Invalid(
            f"--expires {text!r} is not a validity for a token",
            remedy=f"write it as 12h or 30d, at most {EXPIRES_S_MAX // 86400}d",
        )
    return seconds


COMMANDS = {
    "token create": Command(_CREATE, _declare_create, _create),
    "token list": Command(_LIST, declare_nothing, _list),
    "token revoke": Command(_REVOKE, _declare_revoke, _revoke),
}
