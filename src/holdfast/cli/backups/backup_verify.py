"""`holdfast backup verify SVC [ID]`: read every stored byte of a backup, and compare it with its receipt."""

from argparse import Namespace

import msgspec

from holdfast.cli.backups import backup_view
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt
from holdfast.model import backup_key
from holdfast.model.backup import Stored
from holdfast.model.backup_key import FLEET_DIGITS
from holdfast.ports.hub_link import BackupReader

DETAILS = """\
Fetches every object of the backup from the hub and compares its digest with the receipt; so is the sealed key, without
which nothing of it can be read. It opens nothing, so it needs no identity. Without ID it reads the newest backup.
Exit 0: every byte is there and right; 7: something is damaged or missing.

examples:
  holdfast backup verify web
  holdfast backup verify web 4f0c2a --json
"""

TOLD = 50  # objects between two lines of progress


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service that the backup is of")
    parser.add_argument(
        "id", metavar="ID", nargs="?", default="", help="the backup, as `holdfast backup list` shows it"
    )


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    hub, one = backup_view.reader(view), backup_view.named(view, args.service.removeprefix("service."), args.id)
    receipt, flaws = one.receipt, list[str]()
    above = f"{receipt.fleet[:FLEET_DIGITS]}/{receipt.service}/g{receipt.generation}"
    objects = [("manifests", receipt.manifest), *(("packs", pack) for pack in receipt.packs)]
    try:
        backup_view.keys_of(hub, receipt)
    except Corrupt as trouble:
        flaws.append(trouble.message)
    for number, (kind, stored) in enumerate(objects, 1):
        try:
            _read(hub, f"{above}/{kind}/{stored.digest}", stored)
        except Corrupt as trouble:
            flaws.append(trouble.message)
        if number % TOLD == 0 and not args.json:
            box.terminal.remark(f"{number} of {len(objects)} objects read")
    if args.json:
        body = {"id": one.id, "objects": len(objects), "bytes": receipt.stored_bytes, "flaws": flaws}
        box.terminal.say_raw(msgspec.json.encode(body).decode())
    elif not flaws:
        box.terminal.say(
            f"Backup {one.id} of {receipt.service}: {counted(len(objects), 'object')}, {size(receipt.stored_bytes)}, "
            "every byte is right."
        )
    if flaws:
        raise Corrupt(
            f"backup {one.id} of {receipt.service} is damaged: {'; '.join(flaws[:3])}",
            remedy=f"holdfast backup {receipt.service} --wait",
            code="backup_damaged",
        )
    return 0


def _read(hub: BackupReader, key: str, stored: Stored) -> None:
    content = backup_view.content_of(hub, backup_key.parse(key))
    if len(content) != stored.size_bytes:
        raise Corrupt(f"{key} has another size than its receipt says", remedy="", code="backup_damaged")
