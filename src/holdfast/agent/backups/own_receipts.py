"""The newest backup that this node signed for: a target may claim anything else, and may have those of other nodes."""

from collections.abc import Sequence
from contextlib import suppress

from holdfast.agent.backups.store import Store
from holdfast.errors import Corrupt
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import BackupKey
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import receipts

READ = 100  # at once: a target may show any number
OTHERS_MAX = 10_000


class OwnReceipts:
    """After a move the backups of the other node have greater numbers for a while: each is read once. `node`: the fleet
    id and the name of this node."""

    def __init__(self, key: IdentityKey, node: tuple[str, str]) -> None:
        self._key = key
        self._fleet, self._node = node
        self._others = set[str]()  # digests of receipts that this node did not sign

    async def newest(self, store: Store, keys: Sequence[BackupKey], last: str) -> VerifiedReceipt | None:
        """Of these, which are sorted by number. `last`: the digest that this node has in its book; it counts if no
        newer one is found."""
        asked = [key for key in reversed(keys) if key.digest not in self._others][:READ]
        for key in (*asked, *(key for key in keys if key.digest == last)):
            with suppress(Corrupt):
                content = await store.read_receipt(key)
                return self._verified(content, key)
        return None

    def _verified(self, content: bytes, key: BackupKey) -> VerifiedReceipt:
        try:
            return receipts.verify(content, self._fleet, key.service, {self._node: self._key.line})
        except Corrupt:
            if len(self._others) >= OTHERS_MAX:
                self._others.clear()
            self._others.add(key.digest)
            raise
