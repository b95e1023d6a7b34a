"""`holdfast secret get NAME`: the value of a secret, opened with the operator's own age identity."""

import os
from argparse import Namespace
from binascii import b2a_base64

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.secrets import secret_opening, secret_view
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.declared import secrets
from holdfast.errors import Conflict, Invalid
from holdfast.model import sealed
from holdfast.model.nearest import hint
from holdfast.model.purpose import Opened
from holdfast.ports.fleet_directory import FleetDirectory

DETAILS = """\
Opens secrets/NAME.age with your age identity and writes the value to standard output, byte for byte: give it to a pipe
or use --out, which makes a file that only you can read. On a terminal the value stays visible, so a warning is printed.
No hub is asked and no other file is read; an old value is in the files of an old revision (history show N --files DIR).

Without Holdfast: age -d -i ~/.config/holdfast/identity.age secrets/NAME.age | tail -n +2

examples:
  holdfast secret get db-password | wl-copy
  holdfast secret get tls --out server.pem
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="an existing secret")
    parser.add_argument("-o", "--out", metavar="FILE", help="write the value to a new file that only you can read")
    secret_opening.declare(parser, "your age identity")


def run(args: Namespace, box: Toolbox) -> int:
    name = secret_view.checked_name(args.name)
    if args.out == "":  # as with an unset variable: the value must not be printed instead
        raise Invalid("--out has no file name", remedy="name a new file: --out FILE", code="usage")
    if args.out and os.path.lexists(args.out):
        raise Conflict(f"{args.out} already exists", remedy="choose another name: --out FILE", code="already_exists")
    found = secret_opening.open_file(_sealed(name, box.files.fleet(args.fleet)), name, args, box)
    if args.out:
        box.disk.replace(args.out, found.value, 0o600)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(_document(name, found, args)).decode())
    elif args.out:
        box.terminal.say(f"Wrote {counted(len(found.value), 'byte')} to {args.out}.")
    else:
        _show(name, found.value, box)
    return 0


def _sealed(name: str, directory: FleetDirectory) -> bytes:
    known = {entry.path for entry in directory.entries(secrets.DIRECTORY)} if _has_secrets(directory) else set()
    path = secrets.path_of(name)
    if path not in known:
        names = sorted(one.removeprefix("secrets/").removesuffix(secrets.SUFFIX) for one in known)
        raise Invalid(
            f"there is no {path} in this fleet directory",
            remedy=f"{hint(name, names)}`holdfast secret list` lists the secrets",
            code="not_found",
        )
    try:
        content = sealed.bare(directory.read(path, sealed.FILE_BYTES_MAX))
        sealed.read(content)
    except sealed.NotSealed as trouble:
        raise Invalid(
            f"{path} {trouble}",
            remedy="restore it from version control, or from a revision: holdfast history show N --files DIR",
            code="not_sealed",
        ) from None
    return content


def _has_secrets(directory: FleetDirectory) -> bool:
    return any(entry.path == secrets.DIRECTORY for entry in directory.entries())


def _show(name: str, value: bytes, box: Toolbox) -> None:
    if not box.terminal.is_shown():
        box.terminal.say_exactly(value)
        return
    if not _is_text(value):
        raise Invalid(
            f"{name} is not plain text, and a terminal would obey its control characters",
            remedy=f"write it to a file: holdfast secret get {name} --out FILE",
            code="not_text",
        )
    box.terminal.warn(f"{name} stays visible on this terminal and in its history; clear both")
    box.terminal.say_exactly(value if value.endswith(b"\n") else value + b"\n")


def _is_text(value: bytes) -> bool:
    try:
        return all(line.isprintable() for line in value.decode().split("\n"))
    except UnicodeDecodeError:
        return False


def _document(name: str, found: Opened, args: Namespace) -> dict[str, object]:
    """`value` is base64, because it may be any bytes; None if it is in the file `path`."""
    return {
        "name": name,
        "size_bytes": len(found.value),
        "addresses": list(found.purpose.addresses) if found.purpose else None,
        "path": args.out,
        "value": None if args.out else b2a_base64(found.value, newline=False).decode(),
    }
