"""Files of a hub on a storage target: which there are, and one of them as the sealed file that it was. Needs no hub.

A receipt is not proven here, because the keys of nodes are in the file itself: `hub restore` verifies what it gets.
"""

import os
import stat
from argparse import Namespace
from collections.abc import Sequence

from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt, HoldfastError, Invalid, NotPermitted
from holdfast.model import archive_key, backup_key
from holdfast.model.archive import Purpose
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.model.ids import Digest
from holdfast.ports.archive import Progress, UnpackJob
from holdfast.ports.backup_target import BackupTarget
from holdfast.ports.sealing import CannotOpen
from holdfast.trust import receipts

FILES_MAX = 1_000  # the newest ones: the owner of a target may put any number there


async def found(target: BackupTarget, fleet: Digest) -> list[VerifiedReceipt]:
    """Oldest first. What is damaged is left out: an older one may be whole."""
    keys = [backup_key.parse(one.key) for one in await target.list(f"{fleet[:FLEET_DIGITS]}/")]
    mine = [key for key in keys if key.kind == "receipts" and backup_key.hub_of(key.service)]
    rows = []
    for key in sorted(mine, key=lambda key: key.sequence)[-FILES_MAX:]:
        try:
            rows.append(receipts.named(await _content(target, key), key.digest, fleet, key.service))
        except Corrupt:
            continue
    return sorted(rows, key=lambda one: (one.receipt.made_s, one.receipt.sequence))


def chosen(rows: Sequence[VerifiedReceipt], id: str, args: Namespace) -> VerifiedReceipt:
    mine = [row for row in rows if row.digest.startswith(id)]
    if mine and (not id or len(mine) == 1):
        return mine[-1]
    if not rows:
        raise Invalid(
            f"there is no file of a hub of this fleet on {args.storage}",
            remedy="try another target, or a file that `holdfast hub backup` made",
            code="not_found",
        )
    raise Invalid(
        f"{len(mine)} files of the hub on {args.storage} begin with {id!r}",
        remedy=f"choose one of: {', '.join(row.id for row in rows[-10:])}",
        code="not_found",
    )


async def unpacked(target: BackupTarget, one: VerifiedReceipt, home: str, args: Namespace, box: Toolbox) -> str:
    """The path of the sealed file, in `home`."""
    receipt = one.receipt
    purpose = Purpose(receipt.fleet, receipt.service, receipt.generation)
    above = f"{receipt.fleet[:FLEET_DIGITS]}/{receipt.service}/g{receipt.generation}"
    top = os.path.join(home, "top")
    os.mkdir(top, 0o700)

    async def fetch(digest: str, kind: str = "packs") -> bytes:
        return await _content(target, backup_key.parse(f"{above}/{kind}/{digest}"))

    job = UnpackJob(
        manifest=await fetch(receipt.manifest.digest, "manifests"),
        digest=receipt.manifest.digest,
        identity=await _identity(target, f"{above}/keys/", purpose, args, box),
        purpose=purpose,
        home=os.path.join(home, "objects"),
        top=top,
    )
    await box.files.archiver().unpack(job, fetch, _untold)
    names = os.listdir(top)
    if len(names) != 1 or not stat.S_ISREG(os.lstat(os.path.join(top, names[0])).st_mode):
        raise Corrupt(
            f"backup {one.id} has no file of a hub in it", remedy="choose another one with --backup ID", code="damaged"
        )
    return os.path.join(top, names[0])


def _untold(progress: Progress) -> None:
    pass


async def _identity(target: BackupTarget, prefix: str, purpose: Purpose, args: Namespace, box: Toolbox) -> str:
    path = args.identity or identity_path(box.environ)
    opener, trouble = box.keys.opener(path), None
    for stored in await target.list(prefix):
        try:
            sealed = await _content(target, backup_key.parse(stored.key))
            return archive_key.read(opener.open(sealed), purpose).identity
        except CannotOpen:
            continue
        except HoldfastError as raised:
            trouble = raised
    raise trouble or NotPermitted(
        f"the identity in {path} cannot open the file of the hub on {args.storage}",
        remedy="use another one with --identity FILE, or ask an operator of grade destroy",
        code="cannot_open",
    )


async def _content(target: BackupTarget, key: BackupKey) -> bytes:
    content = await target.get(key.text)
    if content is None:
        raise Corrupt(f"{key.text} is missing on the target", remedy="choose another one with --backup ID")
    backup_key.check_stored(key, content)
    return content
