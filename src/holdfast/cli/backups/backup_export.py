"""`holdfast backup export SVC FILE`: one plain tar.zst of a backup, opened with the operator's age identity."""

import asyncio
import errno
import os
from argparse import Namespace
from tempfile import TemporaryDirectory

import msgspec

from holdfast.cli.backups import backup_view, key_for_node
from holdfast.cli.backups.progress_lines import ProgressLines
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.secrets import secret_opening
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Failed
from holdfast.model import backup_key
from holdfast.model.archive import Purpose
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import FLEET_DIGITS
from holdfast.ports.archive import Progress, Unpacked, UnpackJob

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)  # a stick with FAT

DETAILS = """\
Fetches every object of the backup from the hub, opens it with your age identity and compares every file with the signed
manifest. FILE is a plain tar, compressed by zstd, which only you can read: unpack it with `tar --zstd -xf FILE`. FILE
must not exist. A dump of a database is the file .holdfast-dump in it. Without --backup it takes the newest
backup with a valid signature. The service need not exist any more.
Exit 0: done; 2: no such backup; 3: your identity cannot open it; 5: FILE exists; 7: something is damaged or missing.

examples:
  holdfast backup export web web.tar.zst
  holdfast backup export web web.tar.zst --backup 4f0c2a --json
  holdfast backup export node.edge1 edge1.tar.zst
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service that the backup is of, or node.NAME")
    parser.add_argument("file", metavar="FILE", help="the file to write, which must not exist")
    parser.add_argument("--backup", metavar="ID", default="", help="the backup, as `holdfast backup list` shows it")
    secret_opening.declare(parser, "your age identity, which opens the backup")


def run(args: Namespace, box: Toolbox) -> int:
    path = os.path.abspath(args.file)
    if os.path.lexists(path):
        raise Conflict(f"{args.file} exists", remedy="choose another file", code="exists")
    view = fleet_view.look(args, box)
    one = backup_view.named(view, args.service.removeprefix("service."), args.backup)
    identity = key_for_node.opened(one, view, args, box).identity
    try:
        with TemporaryDirectory(prefix=".holdfast-export-", dir=os.path.dirname(path)) as home:
            whole = os.path.join(home, "whole")
            done = asyncio.run(_exported(one, identity, home, whole, view, args, box))
            _name(whole, path)
    except OSError as trouble:
        raise Failed(
            f"{args.file} cannot be written: {trouble.strerror or trouble}",
            remedy="choose another file, on a disk with more room: `df -h` shows it",
            code="export_unwritable",
        ) from trouble
    if args.json:
        body = {"id": one.id, "service": one.receipt.service, "file": path, "files": done.files}
        body |= {"size_bytes": done.size_bytes, "file_bytes": os.stat(path).st_size}
        box.terminal.say_raw(msgspec.json.encode(body).decode())
    else:
        what = f"{counted(done.files, 'file')}, {size(done.size_bytes)}"
        box.terminal.say(f"Backup {one.id} of {one.receipt.service} is in {args.file}: {what}.")
    return 0


def _name(whole: str, path: str) -> None:
    """Whole or not at all, and over nothing."""
    try:
        os.link(whole, path)
    except OSError as trouble:
        if trouble.errno not in _NO_LINKS:
            raise
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.replace(whole, path)


async def _exported(
    one: VerifiedReceipt, identity: str, home: str, whole: str, view: FleetView, args: Namespace, box: Toolbox
) -> Unpacked:
    hub, receipt, turn = backup_view.reader(view), one.receipt, asyncio.Lock()
    above = f"{receipt.fleet[:FLEET_DIGITS]}/{receipt.service}/g{receipt.generation}"
    lines, since_s = ProgressLines(box), box.clock.now_s()

    async def fetch(digest: str, kind: str = "packs") -> bytes:
        async with turn:  # one connection
            key = backup_key.parse(f"{above}/{kind}/{digest}")
            return await asyncio.to_thread(backup_view.content_of, hub, key)

    def tell(progress: Progress) -> None:
        if not args.json:
            lines.show(progress.size_bytes, progress.total_bytes or receipt.size_bytes, since_s)

    job = UnpackJob(
        manifest=await fetch(receipt.manifest.digest, "manifests"),
        digest=receipt.manifest.digest,
        identity=identity,
        purpose=Purpose(receipt.fleet, receipt.service, receipt.generation),
        home=home,
    )
    return await box.files.archiver().export(job, fetch, whole, tell)
