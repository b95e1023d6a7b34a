"""Delete backups that the retention of the revision in force does not keep, and the objects that no other one needs."""

from collections.abc import Callable, Mapping, Set

from holdfast.agent.backups.targets.attached import Target
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.door import Vouch
from holdfast.errors import Corrupt
from holdfast.gate import copies
from holdfast.gate.authority import by_revision
from holdfast.model import backup_key
from holdfast.model.backup import Receipt, VerifiedReceipt
from holdfast.model.backup_key import BackupKey
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.target_care import Tidying
from holdfast.reconcile import retention
from holdfast.reconcile.retention import Held, Policy
from holdfast.trust import receipts

Proven = Callable[[str], Set[str]]  # service → digests of receipts of backups that a drill has verified


class Pruning:
    """`vouch` gives the authority of the revision in force, which declares the retention."""

    def __init__(self, *, key: IdentityKey, fleet: str, node: str, vouch: Vouch, proven: Proven) -> None:
        self._key = key
        self._fleet = fleet
        self._node = node
        self._vouch = vouch
        self._proven = proven

    async def prune(self, at: Target, service: str, policy: Policy) -> int:
        """How many backups are gone. Receipts go before what they name, so that none names what is missing. A receipt
        that this node cannot verify keeps every object: what it needs is not known."""
        async with at.changing:
            return await self._prune(at, service, policy)

    async def _prune(self, at: Target, service: str, policy: Policy) -> int:
        keys = await at.store.objects(service)
        found = await self._receipts(at, service, [key for key in keys if key.kind == "receipts"])
        read, proven = at.verified.of(service), self._proven(service)
        held = {
            key.text: Held(
                one.id,
                one.receipt.sequence,
                one.receipt.made_s,
                one.receipt.cause,
                one.digest in proven,
                one.digest in read,
            )
            for key, one in found.items()
        }
        stays = retention.kept(held.values(), policy)
        gone = [key for key, one in found.items() if one.id not in stays]
        if not any(one.read for one in held.values()):
            return 0  # until one was read back: the newest of those stays
        for key in gone:
            await self._delete(at, key)
        at.pruned(service, {key.sequence for key in gone})
        if len(found) == sum(key.kind == "receipts" for key in keys):
            await self._sweep(at, keys, [one.receipt for one in found.values() if one.id in stays])
        if gone and isinstance(at.inner, Tidying):
            await at.inner.tidy()
        return len(gone)

    async def _receipts(self, at: Target, service: str, keys: list[BackupKey]) -> Mapping[BackupKey, VerifiedReceipt]:
        found = {}
        for key in keys:
            try:
                content = await at.store.read_receipt(key)
                found[key] = receipts.verify(content, self._fleet, service, {self._node: self._key.line})
            except Corrupt:
                continue
        return found

    async def _sweep(self, at: Target, keys: list[BackupKey], kept: list[Receipt]) -> None:
        stored = {key.digest: key for key in keys if key.kind in ("packs", "manifests")}
        for digest in sorted(retention.unneeded(kept, stored.keys())):
            await self._delete(at, stored[digest])

    async def _delete(self, at: Target, key: BackupKey) -> None:
        proof = granted(
            copies.may_prune(
                key.text,
                is_own=True,
                is_needed=False,
                proven_stays=True,
                node=self._node,
                authority=by_revision(self._vouch(backup_key.address(key.service))),
            )
        )
        await at.store.delete(proof)
