"""Which objects a node may delete at the hub: those that the retention of the applied revision does not keep.

A node decides what it deletes; this bounds it. A node that lies can delete no backup that must stay.
"""

from holdfast.errors import Corrupt
from holdfast.model.backup import Receipt
from holdfast.model.backup_key import BackupKey, parse
from holdfast.model.storage_target import counts
from holdfast.ports.backup_objects import BackupObjects
from holdfast.ports.hub_link import HubReader
from holdfast.reconcile import retention
from holdfast.reconcile.retention import Held, Policy
from holdfast.trust import receipts


class Deletion:
    def __init__(self, hub: HubReader, objects: BackupObjects) -> None:
        self._hub = hub
        self._objects = objects
        self._read: tuple[tuple[str, ...], dict[str, Receipt]] = ((), {})

    def __call__(self, key: BackupKey) -> bool:
        applied = self._hub.applied()
        if applied is None or key.kind == "keys":
            return False
        try:
            stored = self._receipts(key, applied.fleet_id)
        except Corrupt:
            return False  # what a damaged receipt needs is not known
        if key.kind != "receipts":
            return bool(stored) and key.digest in retention.unneeded(stored.values(), (key.digest,))
        held = [Held(text, one.sequence, one.made_s, one.cause, epoch=one.epoch) for text, one in stored.items()]
        return key.text not in retention.kept(held, Policy(*counts(applied.fleet().backups.retain)))

    def _receipts(self, key: BackupKey, fleet: str) -> dict[str, Receipt]:
        """Read once while they are the same: a node deletes many objects in a row. Another thread may ask about another
        service meanwhile."""
        keys = tuple(one.key for one in self._objects.listed(f"{key.fleet}/{key.service}/receipts/"))
        read = self._read
        if keys != read[0]:
            read = self._read = keys, {text: self._receipt(text, key.service, fleet) for text in keys}
        return read[1]

    def _receipt(self, text: str, service: str, fleet: str) -> Receipt:
        key, content = parse(text), b""
        while part := self._objects.read(key, len(content), 1 << 22):
            content += part
        return receipts.named(content, key.digest, fleet, service).receipt
