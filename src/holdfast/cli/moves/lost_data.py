"""What is lost if a service starts with a backup, for people."""

from math import ceil

from holdfast.cli.backups import backup_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.sizes import counted, size
from holdfast.cli.timestamps import rfc3339
from holdfast.model.backup import VerifiedReceipt


def sentence(one: VerifiedReceipt, node: str, view: FleetView, now_s: float) -> str:
    """`node`: the one that has, or had, the data; "" if its machine does not come back."""
    receipt = one.receipt
    what = f"{size(receipt.size_bytes)} in {counted(receipt.files, 'file')}"
    unless = f", unless {node} comes back" if node else ""
    return (
        f"starts with backup {one.id} (number {receipt.sequence}, made {rfc3339(receipt.made_s)}, {what}); "
        f"{_beside(one, view)}; you lose at most {at_most(now_s - receipt.made_s)}{unless}"
    )


def _beside(one: VerifiedReceipt, view: FleetView) -> str:
    """The newest receipt that is proven."""
    newest = backup_view.proven(view, one.receipt.service)[-1]
    if newest.digest == one.digest:
        return "it is the newest receipt seen"
    return f"the newest receipt seen is {newest.id} (number {newest.receipt.sequence})"


def at_most(seconds: float) -> str:
    """Rounded up, in two units: a bound."""
    minutes = max(1, ceil(seconds / 60))
    hours, days = minutes // 60, minutes // 1440
    if days >= 2:
        return f"{days} d {ceil(minutes / 60) - days * 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
