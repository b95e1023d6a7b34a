"""`holdfast import backups STORAGE`: fill the backup store of a restored hub from a storage target."""

import asyncio
import os
from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.hub import fleet_proof, storage_target
from holdfast.cli.hub.hub_init import STATE_DIR, declare_state_dir
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt
from holdfast.hub.backups import quota
from holdfast.model import backup_key
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.model.ids import Digest
from holdfast.ports.backup_objects import BackupObjects
from holdfast.ports.backup_target import BackupTarget

DETAILS = """\
Run on the hub's machine, as its user; the hub may be running. The backups of services and nodes that lie on a storage
target are copied into the hub's own store, where `holdfast backup list`, `restore` and `migrate` find them. Nothing is
opened: what lies there stays sealed, and every command verifies who signed it. What the store has is not copied again.

Nodes fill the store of a new hub by themselves within an hour, from their targets. This command is for the backups of
a node that is gone, or for now. STORAGE is the name of a [[storage]], or the path of a directory that is one (./DIR).
Exit 0: done; 1: the disk is full; 6: the target does not answer; 7: something is damaged there (the rest is copied).

examples:
  holdfast import backups nas --fleet ~/myfleet
  holdfast import backups /mnt/disk --state-dir /var/lib/holdfast/hub --json
"""

TOLD = 500  # objects between two lines of progress


class Import:
    """Objects before the receipts that name them: a receipt lies only where every object of it lies."""

    def __init__(self, target: BackupTarget, store: BackupObjects) -> None:
        self._target = target
        self._store = store
        self.new = self.bytes = self.receipts = 0
        self.damaged: list[str] = []

    async def copy(self, keys: list[BackupKey], box: Toolbox) -> None:
        lost: set[str] = set()  # services with an object that is damaged on the target
        ordered = sorted(keys, key=lambda key: (key.kind == "receipts", key.text))
        there = self._store.has([key.text for key in ordered])
        for number, key in enumerate(ordered, 1):
            if number % TOLD == 0:
                box.terminal.remark(f"{number} of {len(ordered)} objects looked at")
            if key.text in there or (key.kind == "receipts" and key.service in lost):
                continue
            try:
                await self._copy(key)
            except Corrupt as trouble:
                self.damaged.append(trouble.message)
                lost.add(key.service)

    async def _copy(self, key: BackupKey) -> None:
        content = await self._target.get(key.text)
        if content is None:
            raise Corrupt(f"{key.text} is missing on the target", remedy="", code="object_missing")
        backup_key.check_stored(key, content)
        if full := quota.refusal(self._store.room(), 0, len(content), quota.Held(0, 0, 1)):
            raise full
        self._store.put(key, content)
        self.new, self.bytes = self.new + 1, self.bytes + len(content)
        self.receipts += key.kind == "receipts"


def declare(parser: Parser) -> None:
    storage_target.declare(parser)
    declare_state_dir(parser)
    fleet_proof.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    fleet = fleet_proof.fleet(args, box, f"holdfast import backups {quote(args.storage)}")
    box.ledgers.reader(args.state_dir or STATE_DIR).close()  # there is a hub
    done = asyncio.run(_run(fleet, args, box))
    if args.json:
        body = {"backups": done.receipts, "objects": done.new, "bytes": done.bytes, "damaged": done.damaged}
        box.terminal.say_raw(msgspec.json.encode(body).decode())
    else:
        what = f"{counted(done.receipts, 'backup')}, {counted(done.new, 'object')}, {size(done.bytes)}"
        box.terminal.say(f"Copied into the store of the hub: {what}.")
    if done.damaged:
        raise Corrupt(
            f"{counted(len(done.damaged), 'object')} on {args.storage} could not be copied: {done.damaged[0]}",
            remedy="copy them from another target: holdfast import backups STORAGE",
            code="object_damaged",
        )
    return 0


async def _run(fleet: Digest, args: Namespace, box: Toolbox) -> Import:
    target = storage_target.opened(args, box)
    try:
        await storage_target.looked_at(target, args)
        keys = [backup_key.parse(one.key) for one in await target.list(f"{fleet[:FLEET_DIGITS]}/")]
        done = Import(target, box.files.hub_store(os.path.abspath(args.state_dir or STATE_DIR)))
        await done.copy([key for key in keys if not backup_key.hub_of(key.service)], box)
    finally:
        await target.close()
    return done
