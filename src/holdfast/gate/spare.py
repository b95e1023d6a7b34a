"""Whether a target can spare an object of a backup: what stays there must not be less than it promises. Pure.

It is asked again for each object, about what is at the target then, and does not believe the one who wants to delete.
"""

from collections.abc import Collection
from functools import cached_property

from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import BackupKey


class There:
    """A backup at a target. `proven`: a drill restored it and it was healthy. `read`: every byte of it was read there
    and was right."""

    def __init__(self, found: VerifiedReceipt, proven: bool, read: bool) -> None:
        self.found = found
        self.proven = proven
        self.read = read

    @cached_property
    def needs(self) -> frozenset[str]:
        """Digests of its objects."""
        receipt = self.found.receipt
        return frozenset((receipt.manifest.digest, *(pack.digest for pack in receipt.packs)))


def is_own(key: BackupKey, there: Collection[There], all_known: bool, node: str) -> bool:
    """This node signed the receipt that it belongs to. An object without one is its own only if no other node has a
    receipt there: `all_known` says that `there` has them all."""
    if key.kind == "receipts":
        return any((one.found.digest, one.found.receipt.node) == (key.digest, node) for one in there)
    return all_known and all(one.found.receipt.node == node for one in there)


def is_spare(key: BackupKey, there: Collection[There]) -> bool:
    """Another backup that was read back stays. The newest one stays, and the newest one that is proven. An object that
    one of them needs stays, and so does every key."""
    stays = [one for one in there if one.found.digest != key.digest]
    if key.kind == "keys" or not any(one.read for one in stays):
        return False
    if key.kind == "receipts":
        last = {_newest(there), _newest([one for one in there if one.proven])}
        return key.digest not in last
    return not any(key.digest in one.needs for one in stays)


def _newest(there: Collection[There]) -> str:
    """The digest of its receipt; "" if there is none."""
    receipts = ((one.found.receipt, one.found.digest) for one in there)
    return max(((one.epoch, one.sequence, digest) for one, digest in receipts), default=(0, 0, ""))[2]
