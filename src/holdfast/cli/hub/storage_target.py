"""Open a storage target on this machine, without a hub: by its name in the fleet directory, or as a directory."""

import os
from argparse import Namespace
from shlex import quote

from msgspec import UNSET

from holdfast.cli.flags import Parser
from holdfast.cli.secrets import secret_opening
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Invalid, Unreachable
from holdfast.model.fleet import Storage
from holdfast.ports.backup_target import BackupTarget

READABLE = ("attached", "full", "read_only")


def declare(parser: Parser) -> None:
    parser.add_argument(
        "storage", metavar="STORAGE", help="name of a [[storage]] in fleet.toml, or the path of its directory: ./DIR"
    )
    secret_opening.declare(parser, "your age identity, which opens the credentials of the target and the backups")


def opened(args: Namespace, box: Toolbox) -> BackupTarget:
    """Not looked at yet."""
    if "/" in args.storage:
        return box.files.directory_target(os.path.abspath(args.storage))
    storage, sealed = _declared(args, box)
    if storage.type == "usb":
        raise Invalid(
            f"{storage.name} is a disk, and no disk is mounted by this command",
            remedy="mount it read-only, and give its directory in the place of its name",
        )
    value = b"" if sealed is None else secret_opening.open_file(sealed, str(storage.secret), args, box).value
    return box.files.target(storage, value)


async def looked_at(target: BackupTarget, args: Namespace) -> None:
    """Raises Unreachable, with the reason, if nothing can be read there."""
    seen = await target.look()
    if seen.state not in READABLE:
        raise Unreachable(
            f"the target {args.storage} cannot be read from this machine: {seen.state}; {seen.reason}",
            remedy="mount it here, or give the path of its directory in the place of its name",
            code="target_gone",
        )


def _declared(args: Namespace, box: Toolbox) -> tuple[Storage, bytes | None]:
    fleet = load(box.files.fleet(args.fleet))
    storage = fleet.storage.get(args.storage)
    if storage is None:
        names = ", ".join(sorted(fleet.storage)) or "it declares none"
        raise Invalid(
            f"there is no [[storage]] {args.storage} in {args.fleet}: {names}",
            remedy=f"name one of them, or give a directory: ./{quote(args.storage)}",
            code="not_found",
        )
    return storage, fleet.secrets[storage.secret] if storage.secret is not UNSET else None
