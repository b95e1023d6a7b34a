"""The backup that a drill proves: the newest one, which this node's own book knows, or the one that an order names."""

from collections.abc import Callable, Sequence

from holdfast.agent.backups.own_receipts import OwnReceipts
from holdfast.agent.backups.store import Store
from holdfast.errors import Corrupt, Failed
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import BackupKey
from holdfast.model.backup_report import BackupMade
from holdfast.ports.identity_key import IdentityKey


class Choosing:
    """`store` reads from all targets that answer, `primary` from the one that every backup is at. `last` answers the
    newest backup that this node has made, from its own disk."""

    def __init__(
        self,
        store: Store,
        primary: Store,
        key: IdentityKey,
        node: tuple[str, str],
        last: Callable[[str], BackupMade | None],
    ) -> None:
        self._store = store
        self._primary = primary
        self._own = OwnReceipts(key, node)
        self._last = last

    def newest(self, service: str) -> str:
        """The digest, as far as this node's book knows; "" if there is none."""
        last = self._last(service)
        return last.digest if last is not None else ""

    async def chosen(self, service: str, digest: str) -> VerifiedReceipt:
        """A target that shows an older backup as the newest has lost one, or lies."""
        if digest:
            await self._keys(service, digest)
            return await self._store.named(service, digest)
        last = self._last(service)
        keys = await self._keys(service, last.digest if last is not None else "")
        newest = await self._own.newest(self._store, keys, last.digest if last is not None else "")
        if last is None and newest is None:
            raise Failed(
                f"{service} has no backup yet", remedy=f"holdfast backup {service} --wait", code="no_backup_yet"
            )
        if last is not None and last.digest not in {key.digest for key in keys}:
            shown = (
                f"the newest one there is number {newest.receipt.sequence}" if newest is not None else "none is there"
            )
            raise Corrupt(
                f"backup {last.id} of {service}, number {last.sequence}, is missing where it was stored: {shown}",
                remedy=f"holdfast backup {service} --wait",
                code="not_the_newest",
            )
        if newest is None or (last is not None and newest.receipt.sequence < last.sequence):
            assert last is not None
            return await self._store.named(service, last.digest)  # says what is wrong with it
        return newest

    async def _keys(self, service: str, digest: str) -> Sequence[BackupKey]:
        """Of all receipts. That this one is missing, only the primary target can say: another may be behind."""
        keys = await self._store.receipts(service)
        if digest and all(key.digest != digest for key in keys):
            return await self._primary.receipts(service)
        return keys

    async def is_stored(self, found: VerifiedReceipt) -> bool:
        keys = await self._store.receipts(found.receipt.service)
        return any(key.digest == found.digest for key in keys)
