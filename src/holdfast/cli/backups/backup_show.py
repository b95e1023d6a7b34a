"""`holdfast backup show SVC [ID]`: one backup, as its node signed for it."""

from argparse import Namespace

import msgspec

from holdfast.cli.backups import backup_view, drill_view
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.sizes import counted, size
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox

DETAILS = """\
Without ID it shows the newest backup. ID may be the beginning of an id. The names of files are inside the sealed
manifest: only the operators and the node of the service can open it, and the hub cannot.

examples:
  holdfast backup show web
  holdfast backup show web 4f0c2a --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service that the backup is of")
    parser.add_argument(
        "id", metavar="ID", nargs="?", default="", help="the backup, as `holdfast backup list` shows it"
    )


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    one = backup_view.named(view, args.service.removeprefix("service."), args.id)
    receipt, drill = one.receipt, drill_view.states(view).get(one.receipt.service)
    mine = drill.last if drill is not None and drill.last is not None and drill.last.backup == one.digest else None
    proven_s = drill.proven_s if drill is not None and drill.proven == one.digest else 0.0
    copies = backup_view.copies(view, one, backup_view.states(view))
    if args.json:
        objects = [msgspec.to_builtins(pack) for pack in receipt.packs]
        body = {
            **backup_view.document(one),
            "proven": rfc3339(proven_s) if proven_s else None,
            "verdict": mine.verdict if mine is not None else None,
            "copies": [copy.document() for copy in copies],
            "manifest": msgspec.to_builtins(receipt.manifest),
            "packs": objects,
        }
        box.terminal.say_raw(msgspec.json.encode(body).decode())
        return 0
    lines = (
        f"Backup {one.id} of {receipt.service}, number {receipt.sequence}",
        f"  made       {rfc3339(receipt.made_s)} on {receipt.node}, signed by it",
        f"  data       {counted(receipt.files, 'file')}, {size(receipt.size_bytes)}"
        + (", the default set of files only" if receipt.partial else ""),
        f"  volumes    {', '.join(receipt.volumes) or '-'}",
        f"  written by revision {receipt.revision or 'unknown'}",
        f"  stored     {counted(len(receipt.packs), 'pack')}, {size(receipt.stored_bytes)}, key generation "
        f"{receipt.generation}",
        f"  copies     {', '.join(str(copy) for copy in copies)}",
        f"  digest     {one.digest}",
        f"  proven     {rfc3339(proven_s) if proven_s else drill_view.NEVER}"
        + (f"; the last drill {mine.verdict}: {mine.reason}" if mine is not None and mine.reason else ""),
    )
    for line in lines:
        box.terminal.say(line)
    if receipt.left_out:
        box.terminal.say(f"  left out   {receipt.left_out}: sockets, devices, other file systems")
    return 0
