"""Delete backups that the retention of the revision in force does not keep, and the objects that no other one needs."""

from collections.abc import Callable, Mapping, Set
from contextlib import suppress

from holdfast.agent.backups.targets.attached import Target
from holdfast.agent.completing import completed
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.door import Vouch
from holdfast.errors import Corrupt
from holdfast.gate import copies
from holdfast.gate.authority import by_revision
from holdfast.gate.spare import There
from holdfast.model import backup_key
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import BackupKey
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.target_care import Tidying
from holdfast.reconcile import retention
from holdfast.reconcile.retention import Held, Policy
from holdfast.trust import receipts

Proven = Callable[[str], Set[str]]  # service → digests of receipts of backups that a drill has verified
Found = tuple[VerifiedReceipt, bool]  # and whether this node signed it


class Pruning:
    """`vouch` gives the authority of the revision in force, which declares the retention."""

    def __init__(self, *, key: IdentityKey, fleet: str, node: str, vouch: Vouch, proven: Proven) -> None:
        self._key = key
        self._fleet = fleet
        self._node = node
        self._vouch = vouch
        self._proven = proven

    async def prune(self, at: Target, service: str, policy: Policy) -> int:
        """How many backups are gone. Receipts go before what they name, so that none names what is missing. A damaged
        receipt keeps every object, because what it needs is not known; then this raises Corrupt at the end."""
        async with at.changing:
            return await self._prune(at, service, policy)

    async def _prune(self, at: Target, service: str, policy: Policy) -> int:
        keys = await at.store.objects(service)
        signed = [key for key in keys if key.kind == "receipts"]
        found = await self._receipts(at, service, signed)
        damaged = [key for key in signed if key not in found]
        all_known = not damaged
        held = [_held(one) for one in self._there(at, service, found)]
        stays = retention.kept(held, policy)
        gone = [key for key, (one, _) in found.items() if one.id not in stays]
        if not any(one.read for one in held if one.mine):
            return 0  # until one was read back: the newest of those stays
        for key in gone:
            await self._delete(at, key, self._there(at, service, found), all_known)
            _, is_mine = found.pop(key)
            if is_mine:
                at.pruned(service, {key.sequence})
        if all_known and retention.FOREIGN not in stays.values():
            stored = {key.digest: key for key in keys if key.kind in ("packs", "manifests")}
            there = self._there(at, service, found)
            for digest in sorted(retention.unneeded([one.receipt for one, _ in found.values()], stored.keys())):
                await self._delete(at, stored[digest], there, all_known)
        if isinstance(at.inner, Tidying):
            await at.inner.tidy()
        if damaged:
            raise _damaged(at, damaged)
        return len(gone)

    async def _receipts(self, at: Target, service: str, keys: list[BackupKey]) -> dict[BackupKey, Found]:
        """Those that this node signed, and those of nodes that had the service before: what they name, as the target
        shows it."""
        found = {}
        for key in keys:
            with suppress(Corrupt):
                content = await at.store.read_receipt(key)
                try:
                    found[key] = receipts.verify(content, self._fleet, service, {self._node: self._key.line}), True
                except Corrupt:
                    found[key] = receipts.named(content, key.digest, self._fleet, service), False
        return found

    def _there(self, at: Target, service: str, found: Mapping[BackupKey, Found]) -> list[There]:
        """What is there now, and what is known of it now: a drill may have ended meanwhile."""
        read, proven = at.verified.of(service), self._proven(service)
        return [There(one, one.digest in proven, one.digest in read, is_mine) for one, is_mine in found.values()]

    async def _delete(self, at: Target, key: BackupKey, there: list[There], all_known: bool) -> None:
        """A deletion that has begun ends before a backup begins, which could rely on the object otherwise."""
        authority = by_revision(self._vouch(backup_key.address(key.service)))
        proof = copies.may_prune(key.text, there, all_known=all_known, node=self._node, authority=authority)
        await completed(at.store.delete(granted(proof)))


def _damaged(at: Target, receipts_: list[BackupKey]) -> Corrupt:
    more = f" and {len(receipts_) - 1} more" if len(receipts_) > 1 else ""
    return Corrupt(
        f"{at.name} has a damaged receipt, and no object that it may name is deleted there: {receipts_[0].text}{more}",
        remedy=f"look at the disk of {at.name}, then delete that object there; one that another target has whole is "
        "copied again",
        code="receipt_damaged",
    )


def _held(one: There) -> Held:
    receipt = one.found.receipt
    return Held(
        one.found.id,
        receipt.sequence,
        receipt.made_s,
        receipt.cause,
        one.proven,
        one.read,
        epoch=receipt.epoch,
        mine=one.mine,
    )
