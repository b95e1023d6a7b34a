"""Which receipts a hub stores: those that the calling node signed itself, for the service and the number in the key, of
an epoch in which it had the service."""

from holdfast.errors import Invalid
from holdfast.hub.backups.store import RECEIPT_BYTES_MAX
from holdfast.model import backup_key
from holdfast.model.applied import Applied
from holdfast.model.backup_key import BackupKey
from holdfast.model.principal import Principal
from holdfast.ports.hub_link import HubReader
from holdfast.trust import receipts


class ReceiptRule:
    def __init__(self, hub: HubReader) -> None:
        self._hub = hub

    def __call__(self, key: BackupKey, content: bytes | bytearray, node: Principal) -> None:
        if len(content) > RECEIPT_BYTES_MAX:
            raise Invalid(
                f"the receipt {key.text} is longer than {RECEIPT_BYTES_MAX:,} bytes",
                remedy="a receipt names no files: put them into the sealed manifest",
                code="body_too_large",
            )
        applied = self._hub.applied()
        fleet = applied.fleet_id if applied is not None else ""
        found = receipts.verify(bytes(content), fleet, key.service, {node.name: node.key}).receipt
        if found.sequence != key.sequence:
            raise Invalid(
                f"the receipt {key.text} is of backup {found.sequence}",
                remedy="store it under the number that it has",
                code="backup_key",
            )
        newest = _newest_epoch(applied, key.service, node.name)
        if found.epoch > newest:
            raise Invalid(
                f"the receipt {key.text} is of epoch {found.epoch}; {node.name} had {key.service} up to epoch {newest}",
                remedy="back the service up on the node that has it now",
                code="later_epoch",
            )


def _newest_epoch(applied: Applied | None, service: str, node: str) -> int:
    """A node that gave the service away makes no backup that would count as newer than those of the next one."""
    entry = applied.table.entries.get(backup_key.address(service)) if applied is not None else None
    if entry is None or backup_key.node_of(service):
        return 0
    return entry.epoch if entry.node == node else entry.epoch - 1
