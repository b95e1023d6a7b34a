"""The key of a backup, opened by the operator: to read it here, or sealed to a node that did not make the backup."""

from argparse import Namespace

from holdfast.cli.backups import backup_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.tools import Toolbox
from holdfast.errors import NotPermitted
from holdfast.model import archive_key
from holdfast.model.applied import recorded_key
from holdfast.model.archive import Purpose
from holdfast.model.archive_key import ArchiveKey
from holdfast.model.backup import VerifiedReceipt
from holdfast.ports.sealing import CannotOpen


def arguments(one: VerifiedReceipt, node: str, view: FleetView, args: Namespace, box: Toolbox) -> dict[str, str]:
    """Of the order. The machine that made the backup can open it."""
    replaced_s = backup_view.replaced_s(node, view)
    if node == one.receipt.node and (replaced_s is None or one.receipt.made_s > replaced_s):
        return {}
    plain = archive_key.written(opened(one, view, args, box))
    return {"key": box.keys.sealer().seal(plain, [recorded_key(view.applied, node)]).hex()}


def opened(one: VerifiedReceipt, view: FleetView, args: Namespace, box: Toolbox) -> ArchiveKey:
    """With the operator's age identity."""
    receipt = one.receipt
    hub, path = backup_view.reader(view), args.identity or identity_path(box.environ)
    opener, purpose = box.keys.opener(path), Purpose(receipt.fleet, receipt.service, receipt.generation)
    for sealed in backup_view.keys_of(hub, receipt):
        try:
            plain = opener.open(sealed)
        except CannotOpen:
            continue
        return archive_key.read(plain, purpose)
    raise NotPermitted(
        f"the identity in {path} cannot open the backups of {receipt.service}",
        remedy="use another one with --identity FILE, or ask an operator who can open them",
        code="cannot_open",
    )
