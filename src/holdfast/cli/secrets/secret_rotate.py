"""`holdfast secret rotate NAME`: seal a new value, or the same value to the present recipients."""

from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.secrets import purposes, secret_opening, secret_sealing, secret_value, secret_view
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid
from holdfast.model.purpose import Purpose

DETAILS = """\
Replaces secrets/NAME.age. The new value comes from the same sources as in `secret set`. With --keep the value stays: it
is opened with your own age identity and sealed again to the present operators and nodes. Use it after a node joined, a
service moved, or an operator came or left. An operator who left may have kept the old value: then set a new one.

Inside the seal are the services that may have it: those that use it now, or those that --for names. Services that no
longer use it may not have the new file; addresses that this directory does not declare stay.

The next apply deploys the services that use the secret again, each component with its usual update strategy.

examples:
  holdfast secret rotate db-password --generate && holdfast apply
  holdfast secret rotate db-password --keep && holdfast apply
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="an existing secret")
    parser.add_argument(
        "--keep", action="store_true", help="keep the value; seal it to the present operators and nodes"
    )
    secret_opening.declare(parser, "your age identity for --keep")
    secret_sealing.declare_addresses(parser)
    secret_value.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    name = secret_view.checked_name(args.name)
    if args.keep and (args.file is not None or args.generate is not None):
        raise Invalid(
            "--keep keeps the value, so --file and --generate cannot be used with it",
            remedy="omit one of them",
            code="usage",
        )
    view = secret_view.look(args, box)
    if name not in view.fleet.secrets:
        raise Invalid(
            f"there is no secret {name} in this fleet directory",
            remedy=f"holdfast secret set {name}{repeated(args)}",
            code="not_found",
        )
    sealed = view.fleet.secrets[name]
    kept = secret_opening.open_file(sealed, name, args, box) if args.keep else None
    before = kept.purpose if kept else purposes.known({name: sealed}, box).get(name)
    if kept and not args.addresses:
        _refuse_renamed(name, before, view)
    goal = secret_sealing.purpose(view, name, args.addresses, before)
    to = secret_sealing.recipients(view, goal)
    secret_sealing.write(view, goal, kept.value if kept else secret_value.read(args, box, name), to, box)
    return _say(view, goal, to, args, box)


def _refuse_renamed(name: str, before: Purpose | None, view: secret_view.View) -> None:
    """A file of another secret under a new name: its value is given only to services that the operator types."""
    if before is None or before.name == name:
        return
    raise Conflict(
        f"{secret_view.file_of(view, name)} is the secret {before.name}, sealed for "
        f"{', '.join(before.addresses) or 'no service'}, under another name",
        remedy=f"if a service may have it, name that service: holdfast secret rotate {name} --keep --for ADDRESS",
        code="secret_renamed",
    )


def _say(view: secret_view.View, goal: Purpose, to: secret_sealing.Recipients, args: Namespace, box: Toolbox) -> int:
    name = goal.name
    used_by, restarts = secret_view.users(view, name), secret_view.services(view, name)
    path = secret_view.file_of(view, name)
    if args.json:
        document = {**secret_sealing.document(goal, path, to, used_by), "kept": args.keep, "restarts": list(restarts)}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    else:
        box.terminal.say(
            f"Sealed {'the same value of ' if args.keep else ''}{path} again, to {secret_sealing.whom(goal, to)}."
        )
        if restarts:
            box.terminal.say(f"The next apply deploys again: {', '.join(restarts)}")
    secret_sealing.tell(view, goal, to, used_by, box)
    return 0
