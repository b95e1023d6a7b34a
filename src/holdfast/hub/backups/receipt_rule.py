"""Which receipts a hub stores: those that the calling node signed itself, for the service and the number in the key."""

from holdfast.errors import Invalid
from holdfast.hub.backups.store import RECEIPT_BYTES_MAX
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
