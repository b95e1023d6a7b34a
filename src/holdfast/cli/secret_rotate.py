"""`holdfast secret rotate NAME`: a new value for a secret, or the same value sealed to whoever needs it today."""

from argparse import Namespace

import msgspec

from holdfast.cli import secret_value, secret_view
from holdfast.cli.flags import Parser, repeated
from holdfast.cli.identity_file import identity_path
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid, NotPermitted
from holdfast.ports.sealing import CannotOpen

DETAILS = """\
Writes secrets/NAME.age anew. The new value comes from where `secret set` takes it. With --keep the value stays: it is
opened with your own age identity and sealed again to today's operators and nodes, for a node that joined, a service
that moved, a colleague who came or left. Whoever could open the old file may have kept its value: after somebody left,
give it a new one.

Services that name the secret are deployed anew at the next apply, each component keeping its usual way of updating.

examples:
  holdfast secret rotate db-password --generate && holdfast apply
  holdfast secret rotate db-password --keep && holdfast apply
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="a secret that is there")
    parser.add_argument("--keep", action="store_true", help="the same value, sealed to today's operators and nodes")
    parser.add_argument(
        "--identity",
        metavar="FILE",
        help="your age identity for --keep (default: $HOLDFAST_IDENTITY, else ~/.config/holdfast/identity.age)",
    )
    secret_value.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    name = secret_view.checked_name(args.name)
    if args.keep and (args.file is not None or args.generate is not None):
        raise Invalid("--keep keeps the value, so no new one is taken", remedy="leave one of them out", code="usage")
    view = secret_view.look(args, box)
    if name not in view.fleet.secrets:
        raise Invalid(
            f"there is no secret {name} in this fleet directory",
            remedy=f"holdfast secret set {name}{repeated(args)}",
            code="not_found",
        )
    to = secret_view.recipients(view, name)
    value = _kept(view.fleet.secrets[name], name, args, box) if args.keep else secret_value.read(args, box, name)
    secret_view.write(view, name, value, to, box)
    return _say(view, name, to, args, box)


def _kept(sealed: bytes, name: str, args: Namespace, box: Toolbox) -> bytes:
    path = args.identity or identity_path(box.environ)
    try:
        return box.opener(path).open(sealed)
    except CannotOpen:
        raise NotPermitted(
            f"the identity in {path} cannot open {name}: it was not sealed to it",
            remedy=f"name another with --identity FILE, ask a colleague who can, or give it a new value: "
            f"holdfast secret rotate {name}",
            code="secret_not_readable",
        ) from None


def _say(view: secret_view.View, name: str, to: secret_view.Recipients, args: Namespace, box: Toolbox) -> int:
    used_by, restarts = secret_view.users(view, name), secret_view.services(view, name)
    path = secret_view.file_of(view, name)
    if args.json:
        document = {**secret_view.document(name, path, to, used_by), "kept": args.keep, "restarts": list(restarts)}
        box.terminal.say(msgspec.json.encode(document).decode())
    else:
        box.terminal.say(f"Sealed {'the same value of ' if args.keep else ''}{path} anew to {secret_view.whom(to)}.")
        if restarts:
            box.terminal.say(f"The next apply deploys anew: {', '.join(restarts)}")
    secret_view.tell(name, to, used_by, box)
    return 0
