"""`holdfast token create`: create a read-only token for curl and browsers. The secret is printed once."""

import re
from argparse import Namespace

import msgspec

from holdfast.cli import session
from holdfast.cli.flags import Parser
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Invalid
from holdfast.model import duration
from holdfast.model.token import EXPIRES_S_DEFAULT, EXPIRES_S_MAX, Token

DETAILS = """\
The token gives read-only access to the hub. It is printed once, on stdout; the hub keeps only its hash.

examples:
  holdfast token create --name grafana --expires 30d
  curl -H "Authorization: Bearer $(holdfast token create -q --name once --expires 1h)" https://hub.example:9555/v1/status
"""


def declare(parser: Parser) -> None:
    parser.add_argument("--name", metavar="NAME", default="", help="its purpose (default: its id)")
    parser.add_argument(
        "--expires", metavar="TIME", default="", help="validity, such as 12h or 30d (default 30d, at most 366d)"
    )


def run(args: Namespace, box: Toolbox) -> int:
    expires_in_s = _seconds(args.expires) if args.expires else EXPIRES_S_DEFAULT
    if args.name and not re.fullmatch(r"[!-~][ -~]{0,63}", args.name):
        raise Invalid(
            f"{args.name!r} is not a valid name for a token", remedy="use at most 64 printable ASCII characters"
        )
    made = box.tokens(target(args, box)).create_token(args.name, expires_in_s)
    if args.json:
        box.terminal.say(msgspec.json.encode({"token": shown(made.token), "text": made.text}).decode())
        return 0
    box.terminal.remark(
        f"Token {made.token.id} is valid until {rfc3339(made.token.expires_s)}. It is shown only once; revoke it with: "
        f"holdfast token revoke {made.token.id}"
    )
    box.terminal.say(made.text)
    return 0


def shown(token: Token) -> dict[str, str | None]:
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


def target(args: Namespace, box: Toolbox) -> str:
    return session.hub_target(args, None if args.hub else load(box.fleet_directory(args.fleet)))


def _seconds(text: str) -> int:
    seconds = duration.milliseconds(text) // 1000 if re.fullmatch(duration.PATTERN, text) else 0
    if not 0 < seconds <= EXPIRES_S_MAX:
        raise Invalid(
            f"--expires {text!r} is not a validity for a token",
            remedy=f"write it as 12h or 30d, at most {EXPIRES_S_MAX // 86400}d",
        )
    return seconds
