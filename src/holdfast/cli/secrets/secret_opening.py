"""Open a sealed file with the operator's own age identity."""

from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.tools import Toolbox
from holdfast.errors import NotPermitted
from holdfast.model.purpose import Opened, opened
from holdfast.ports.sealing import CannotOpen


def declare(parser: Parser, about: str) -> None:
    default = "(default: $HOLDFAST_IDENTITY, else ~/.config/holdfast/identity.age)"
    parser.add_argument("--identity", metavar="FILE", help=f"{about} {default}")


def open_file(sealed: bytes, name: str, args: Namespace, box: Toolbox) -> Opened:
    path = args.identity or identity_path(box.environ)
    try:
        return opened(box.keys.opener(path).open(sealed))
    except CannotOpen:
        raise NotPermitted(
            f"the identity in {path} cannot open {name}: {name} is not sealed to it",
            remedy=f"use another one with --identity FILE, ask a colleague who can open it, or set a new value: "
            f"holdfast secret rotate {name}",
            code="secret_not_readable",
        ) from None
