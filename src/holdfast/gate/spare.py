"""Whether a target can spare an object of a backup: what stays there must not be less than it promises. Pure.

It is asked again for each object, about what is at the target then, and does not believe the one who wants to delete.
"""

from collections.abc import Collection
from functools import cached_property

from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import BackupKey


class There:
    """A backup at a target. `proven`: a drill restored it and it was healthy. `read`: every byte of it was read there
    and was right. `mine`: this node signed its receipt; else it is only what the target shows."""

    def __init__(self, found: VerifiedReceipt, proven: bool, read: bool, mine: bool = True) -> None:
        self.found = found
        self.proven = proven
        self.read = read
        self.mine = mine

    @cached_property
    def needs(self) -> frozenset[str]:
        """Digests of its objects."""
        receipt = self.found.receipt
        return frozenset((receipt.manifest.digest, *(pack.digest for pack in receipt.packs)))

    def is_succeeded(self, there: Collection["There"]) -> bool:
        """This node has backups of a later epoch: one that is proven, and one that was read back."""
        epoch = self.found.receipt.epoch
        later = [one for one in there if one.mine and one.found.receipt.epoch > epoch]
        return any(one.proven for one in later) and any(one.read for one in later)


def is_own(key: BackupKey, there: Collection[There], all_known: bool) -> bool:
    """This node signed the receipt that it belongs to, or took the service over from the node that did. An object
    without a receipt is its own only if that holds for every receipt there: `all_known` says that `there` has them
    all."""
    own = [one for one in there if one.mine or one.is_succeeded(there)]
    if key.kind == "receipts":
        return any(one.found.digest == key.digest for one in own)
    return all_known and len(own) == len(there)


def is_spare(key: BackupKey, there: Collection[There]) -> bool:
    """Another backup of this node that was read back stays. Its newest one stays, and its newest one that is proven. An
    object that any of them needs stays, and so does every key."""
    stays = [one for one in there if one.found.digest != key.digest]
    if key.kind == "keys" or not any(one.read for one in stays if one.mine):
        return False
    if key.kind == "receipts":
        mine = [one for one in there if one.mine]
        last = {_newest(mine), _newest([one for one in mine if one.proven])}
        return key.digest not in last
    return not any(key.digest in one.needs for one in stays)


def _newest(there: Collection[There]) -> str:
    """The digest of its receipt; "" if there is none."""
    receipts = ((one.found.receipt, one.found.digest) for one in there)
    return max(((one.epoch, one.sequence, digest) for one, digest in receipts), default=(0, 0, ""))[2]
