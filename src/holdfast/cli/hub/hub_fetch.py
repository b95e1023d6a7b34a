"""`holdfast hub fetch STORAGE`: the file of the hub from a storage target, without any hub."""

import asyncio
import os
from argparse import Namespace
from shlex import quote
from tempfile import TemporaryDirectory

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.hub import fleet_proof, storage_target, stored_hub_files
from holdfast.cli.sizes import size
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Failed
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.ids import Digest

DETAILS = """\
For the day on which the hub is gone. The node of the hub (roles = ["hub"]) stores the hub's sealed file on its storage
targets, at the times of [backups]. This command reads such a target from this machine, with the credentials in your
fleet directory, and writes the file: `holdfast hub restore FILE` goes on with it. STORAGE is the name of a [[storage]],
or the path of a directory that is one (./DIR), for example a disk that you mounted.

--list shows which files are there and writes nothing. FILE must not exist.
Exit 0: done; 2: there is none; 3: your identity cannot open it; 5: FILE exists; 6: the target does not answer; 7: it is
damaged there.

examples:
  holdfast hub fetch nas --fleet ~/myfleet
  holdfast hub fetch /mnt/disk --list
  holdfast hub fetch nas --backup 4f0c2a --to hub.age --json
"""

HEADS = ("ID", "MADE", "BY", "SIZE")


def declare(parser: Parser) -> None:
    storage_target.declare(parser)
    parser.add_argument("--to", metavar="FILE", default="", help="the file to write (default: hub-ID.tar.zst.age)")
    parser.add_argument("--backup", metavar="ID", default="", help="one that --list shows (default: the newest)")
    parser.add_argument("--list", action="store_true", help="only show which ones are there")
    fleet_proof.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    fleet = fleet_proof.fleet(args, box, f"holdfast hub fetch {quote(args.storage)}")
    return asyncio.run(_run(fleet, args, box))


async def _run(fleet: Digest, args: Namespace, box: Toolbox) -> int:
    target = storage_target.opened(args, box)
    try:
        await storage_target.looked_at(target, args)
        rows = await stored_hub_files.found(target, fleet)
        if args.list:
            return _listed(rows, args, box)
        one = stored_hub_files.chosen(rows, args.backup, args)
        path = os.path.abspath(args.to or f"hub-{one.id}.tar.zst.age")
        if os.path.lexists(path):
            raise Conflict(f"{path} exists", remedy="choose another file: --to FILE", code="exists")
        try:
            with TemporaryDirectory(prefix=".holdfast-fetch-", dir=os.path.dirname(path)) as home:
                os.rename(await stored_hub_files.unpacked(target, one, home, args, box), path)
        except OSError as trouble:
            raise Failed(
                f"{path} cannot be written: {trouble.strerror or trouble}",
                remedy="choose another file, on a disk with more room: `df -h` shows it",
                code="fetch_unwritable",
            ) from trouble
    finally:
        await target.close()
    return _say(one, path, args, box)


def _listed(rows: list[VerifiedReceipt], args: Namespace, box: Toolbox) -> int:
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"files": [_document(row) for row in rows]}).decode())
        return 0
    cells = [(row.id, rfc3339(row.receipt.made_s), row.receipt.node, size(row.receipt.size_bytes)) for row in rows]
    for line in tables.lines(cells, box.terminal, HEADS, tail=True):
        box.terminal.say(line)
    if not rows:
        box.terminal.remark(f"There is no file of a hub of this fleet on {args.storage}.")
    return 0


def _document(one: VerifiedReceipt) -> dict[str, object]:
    receipt = one.receipt
    return {
        "id": one.id,
        "node": receipt.node,
        "sequence": receipt.sequence,
        "made": rfc3339(receipt.made_s),
        "size_bytes": receipt.size_bytes,
    }


def _say(one: VerifiedReceipt, path: str, args: Namespace, box: Toolbox) -> int:
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({**_document(one), "file": path}).decode())
        return 0
    box.terminal.say(f"{path}: the hub as of {rfc3339(one.receipt.made_s)}, {size(one.receipt.size_bytes)}.")
    box.terminal.say(f"Next: holdfast hub restore {quote(path)}")
    return 0
