"""Data on this node of a service that is not placed here any more: which copy it is, and of which epoch. Pure."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from holdfast.model.manifest import NodeManifest
from holdfast.reconcile.moves import Out

State = Literal["superseded", "fenced", ""]


class Left(Struct, frozen=True, omit_defaults=True):
    """Noted before a revision is accepted that takes a service away from this node."""

    epoch: int  # by which it was here
    left_s: float
    is_removed: bool = False  # from the fleet; else it runs on another node


def leaving(before: NodeManifest | None, after: NodeManifest | None, now_s: float) -> Mapping[str, Left]:
    """By name: what the next revision takes away. A service that is handed over leaves with its receipt, not now."""
    if before is None or after is None:
        return {}
    gone = {**before.handover, **before.services}
    stays = after.services.keys() | after.handover.keys()
    return {
        address.partition(".")[2]: Left(entry.epoch, now_s, address in after.retired)
        for address, entry in sorted(gone.items())
        if address not in stays
    }


def epoch_of(written: int, out: Out | None, left: Left | None, buried: int) -> int:
    """`written`: by its passports. Older releases did not note it there: then as the books have it, or its tombstone
    (`buried`)."""
    before = out.entry.epoch if out is not None and out.entry is not None else 0
    return written or before or (left.epoch if left is not None else 0) or buried


def state_of(epoch: int, out: Out | None, left: Left | None) -> State:
    """superseded: this node handed its data over. fenced: it did not, and the service runs elsewhere by a newer epoch.
    "": the service was removed from the fleet."""
    if out is not None and out.handover and out.epoch > epoch:
        return "superseded"
    return "fenced" if left is not None and not left.is_removed else ""


def is_in_transit(address: str, manifest: NodeManifest, out: Out | None) -> bool:
    """Handed over, and the other node has not said yet that it has everything: this may be the only whole copy."""
    entry = manifest.handover.get(address)
    return entry is not None and out is not None and out.epoch == entry.epoch and not out.is_taken
